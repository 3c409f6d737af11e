"""pytest's fixtures: one server a session, one empty database a test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from tests.databases.servers import mariadb_address, postgresql_address
from tests.databases.target import TestDatabase

KINDS = [
    "sqlite",
    "duckdb",
    pytest.param("postgresql", marks=pytest.mark.real),
    pytest.param("mariadb", marks=pytest.mark.real),
]


_ADDRESSES = pytest.StashKey[dict[str, str]]()


@pytest.fixture(scope="session")
def postgresql_server(request: pytest.FixtureRequest) -> str:
    return _shared(request.config, "postgresql", postgresql_address)


@pytest.fixture(scope="session")
def mariadb_server(request: pytest.FixtureRequest) -> str:
    return _shared(request.config, "mariadb", mariadb_address)


def _shared(
    config: pytest.Config, kind: str, server: Callable[[], AbstractContextManager[str]]
) -> str:
    """Return where the session's server is. pytest takes a fixture for another one in each module
    that imports it, so the session's configuration keeps the server and stops it."""
    addresses = config.stash.setdefault(_ADDRESSES, {})
    if kind not in addresses:
        with ExitStack() as stack:
            addresses[kind] = stack.enter_context(server())
            config.add_cleanup(stack.pop_all().close)
    return addresses[kind]


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestDatabase]:
    """An empty database of each kind in turn."""
    kind: str = request.param
    wanted = request.node.get_closest_marker("databases")
    if wanted is not None and kind not in wanted.args:
        pytest.skip(f"a test for {', '.join(wanted.args)}")
    yield from made(kind, request, tmp_path)


def made(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[TestDatabase]:
    """An empty database of one kind; for fixtures that want a second one."""
    name = f"db_{uuid.uuid4().hex[:12]}"
    if kind in {"sqlite", "duckdb"}:
        database = TestDatabase(kind, f"jdbc:{kind}:{folder}/{name}.db")
        yield database
        database.close()
        return
    server = sa.engine.make_url(request.getfixturevalue(f"{kind}_server"))
    admin = sa.create_engine(server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    url = server.set(database=name).render_as_string(hide_password=False)
    database = TestDatabase(kind, url)
    yield database
    database.close()
    with admin.connect() as connection:
        force = " WITH (FORCE)" if kind == "postgresql" else ""
        connection.exec_driver_sql(f"DROP DATABASE {name}{force}")
    admin.dispose()
