"""Opens the database that a config names, and checks whether it can be reached."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy.engine import Connection

from moldau.connect.api import ConnectError, Problem, RetriableError
from moldau.connectors.jdbc.database import Database, PoisonError
from moldau.connectors.jdbc.settings import DatabaseConfig
from moldau.connectors.pace import Pace

_TIMEOUT_S = 5
_TIMEOUTS: Mapping[str, Mapping[str, Any]] = {
    "postgresql": {"connect_timeout": _TIMEOUT_S},
    "mysql": {"connect_timeout": _TIMEOUT_S, "read_timeout": _TIMEOUT_S},
    "mariadb": {"connect_timeout": _TIMEOUT_S, "read_timeout": _TIMEOUT_S},
}


def open_database(config: DatabaseConfig, pace: Pace) -> Database:
    """Return the database of a config. It connects at the first use."""
    database = Database(
        config.address(),
        config.dialect(),
        pace,
        attempts=config.attempts,
        backoff_ms=config.backoff_ms,
    )
    database.session = database.dialect.session(config.zone_name)
    return database


Look = Callable[[Connection], list[Problem]]


def connection_problems(
    config: DatabaseConfig, *, is_dry_run: bool = False, look: Look | None = None
) -> list[Problem]:
    """Return what prevents a connection and will not pass by itself.

    A database that does not answer now is no mistake in the settings: the task tries again. Only a
    dry run reports it. `look` finds more problems after the connection is open.
    """
    if config.wrong & {"connection.url", "connection.user", "connection.password", "db.timezone"}:
        return []
    if any(True for _ in DatabaseConfig.check(config)):
        return []
    address = config.address()
    timeouts = _TIMEOUTS.get(address.dialect, {})
    address = replace(address, arguments={**timeouts, **address.arguments})
    database = Database(address, config.dialect(), Pace(), attempts=1, backoff_ms=0)
    try:
        if look is None:
            database.connection()
        else:
            with database.transaction() as connection:
                return look(connection)
    except RetriableError as error:
        return [Problem("connection.url", str(error))] if is_dry_run else []
    except (ConnectError, PoisonError) as error:
        return [Problem("connection.url", str(error))]
    finally:
        database.close()
    return []
