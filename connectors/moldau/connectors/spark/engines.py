"""Connections to `jdbc.url`: the JDBC connectors' database for the sink, an engine for the source.

Invariant: the time zone of each connection is UTC. A database turns an instant into a timestamp
without a zone in the connection's zone, which otherwise is the server's or the user's. What one
connector writes, another one would read as another instant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from moldau.connectors.jdbc.address import Address, AddressError, parse_address
from moldau.connectors.jdbc.database import Database
from moldau.connectors.jdbc.dialects import dialect_of
from moldau.connectors.pace import Pace
from moldau.connectors.spark.base_config import SparkConfig
from moldau.errors import ConfigError
from moldau.spark.reach import Unavailable

CONNECT_ERRORS = (sa.exc.OperationalError, ImportError)
"""What SQLAlchemy raises if there is no connection or no driver."""


def open_database(config: SparkConfig) -> Database:
    """Return the database of `jdbc.url`. It connects at the first use, with one attempt: after a
    failure the query is started again."""
    address = _address(config)
    try:
        dialect = dialect_of(address.dialect)
    except ValueError as error:
        raise ConfigError(str(error), key="jdbc.url") from None
    database = Database(address, dialect, Pace(), attempts=1, backoff_ms=0)
    database.session = dialect.session("UTC")
    return database


def create_engine(config: SparkConfig, **options: Any) -> sa.Engine:
    """Return an engine for `jdbc.url`. `options` are those of SQLAlchemy's `create_engine`."""
    address = _address(config)
    engine = sa.create_engine(address.url, connect_args=dict(address.arguments), **options)
    statements = (*address.on_connect, *_utc_statements(address.dialect))

    def run_statements(driver: Any, _: Any) -> None:
        for statement in statements:
            cursor = driver.cursor()
            cursor.execute(statement)
            cursor.close()
        if statements:
            # A rollback of the first transaction would take the settings back.
            driver.commit()

    sa.event.listen(engine, "connect", run_statements)
    return engine


def database_url(config: SparkConfig) -> sa.URL:
    """Return SQLAlchemy's URL for `jdbc.url`, which may be the URL of a Java driver."""
    return _address(config).url


def no_connection(error: Exception, config: SparkConfig) -> ConfigError:
    """Return the error for one of `CONNECT_ERRORS`, with the first line of the driver's words."""
    reason = str(getattr(error, "orig", None) or error).strip()
    return Unavailable(
        f"no connection to the database: {next(iter(reason.splitlines()), type(error).__name__)}; "
        "check jdbc.url, and that it runs",
        url=database_url(config).render_as_string(hide_password=True),
    )


def _address(config: SparkConfig) -> Address:
    assert config.jdbc_url is not None
    try:
        address = parse_address(config.jdbc_url)
    except AddressError as error:
        raise ConfigError(str(error), key="jdbc.url") from None
    return address.with_login(config.jdbc_user, config.jdbc_password)


def _utc_statements(backend: str) -> Iterable[str]:
    """Return the statements that set the time zone of a connection to UTC."""
    try:
        return dialect_of(backend).session("UTC")
    except ValueError:  # a database of another SQLAlchemy dialect
        return ()
