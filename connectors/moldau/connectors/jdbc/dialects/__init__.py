"""One module a database: its types both ways, and its SQL.

What databases have in common is in `base`; a module here says only what differs. Add a database by
adding a module and a row in `_DIALECTS`.
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
    "postgresql": PostgreSql,
    "sqlite": Sqlite,
    "mysql": MySql,
    "mariadb": MySql,
    "duckdb": DuckDb,
    "mssql": SqlServer,
    "oracle": Oracle,
}


def dialect_of(backend: str, *, quotes: bool = True) -> Dialect:
    """The dialect of a SQLAlchemy backend; raises ValueError for a database without one."""
    try:
        return _DIALECTS[backend](quotes=quotes)
    except KeyError:
        known = ", ".join(sorted(_DIALECTS))
        raise ValueError(f"no dialect for {backend!r}; known: {known}") from None
