"""One module for each database: its types both ways, and its SQL.

`base` has what databases share; a module here has only the differences. To add a database, add a
module and a row in `_DIALECTS`.
"""

from __future__ import annotations

from moldau.connectors.jdbc.dialects.base import Dialect
from moldau.connectors.jdbc.dialects.duckdb import DuckDb
from moldau.connectors.jdbc.dialects.mssql import SqlServer
from moldau.connectors.jdbc.dialects.mysql import MySql
from moldau.connectors.jdbc.dialects.oracle import Oracle
from moldau.connectors.jdbc.dialects.postgresql import PostgreSql
from moldau.connectors.jdbc.dialects.sqlite import Sqlite

__all__ = ["Dialect", "dialect_of"]

_DIALECTS: dict[str, type[Dialect]] = {
    "postgresql": PostgreSql, "sqlite": Sqlite, "mysql": MySql, "mariadb": MySql, "duckdb": DuckDb,
    "mssql": SqlServer, "oracle": Oracle,
}  # fmt: skip


def dialect_of(backend: str, *, quotes: bool = True) -> Dialect:
    """Return the dialect of a SQLAlchemy backend. Raise ValueError if there is none."""
    try:
        return _DIALECTS[backend](quotes=quotes)
    except KeyError:
        known = ", ".join(sorted(_DIALECTS))
        raise ValueError(f"no dialect for {backend!r}; known: {known}") from None
