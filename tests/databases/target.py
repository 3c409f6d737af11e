"""A database for one test: its address as a config names it, and plain SQL for checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from moldau.connectors.jdbc.address import parse_address


class TestDatabase:
    """An empty database. `url` is what goes into connection.url."""

    __test__ = False

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        self.url = url
        address = parse_address(url)
        arguments = dict(address.arguments)
        if kind == "duckdb":  # a process opens a file with one configuration
            arguments["config"] = {"enable_external_access": "false"}
        if kind == "mariadb":  # its driver reads all certificates of the machine for a connection
            arguments["ssl_disabled"] = True
        self._engine = sa.create_engine(address.url, connect_args=arguments, poolclass=NullPool)

    def run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self._engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def insert(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert whole rows."""
        mark = "%s" if self.kind in {"postgresql", "mariadb"} else "?"
        marks = ", ".join([mark] * len(rows[0]))
        with self._engine.begin() as connection:
            connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({marks})", list(rows))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query as plain tuples."""
        with self._engine.begin() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(query).fetchall()]

    @contextmanager
    def locked(self, table: str) -> Iterator[None]:
        """Lock a table of PostgreSQL against writes."""
        with self._engine.begin() as connection:
            connection.exec_driver_sql(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
            yield

    def session(self) -> sa.Connection:
        """Open a connection, for transactions that stay open. The test closes it."""
        return self._engine.connect()

    def close(self) -> None:
        self._engine.dispose()
