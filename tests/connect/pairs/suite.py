"""The suite of the cases of Connect, and the faults that it finds."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from tests.conformance.broker import MoldauBroker
from tests.connect.pairs.columns import COLUMNS, allowed
from tests.connect.pairs.running import run_case
from tests.databases.servers import postgresql_address
from tests.databases.target import TestDatabase
from tests.registry.served import process
from tests.testing.covering import Case
from tests.testing.planting import Fault, Run, Suite

FAULTS: Final[Mapping[str, Fault]] = {
    "a source reads past open transactions": Fault(
        """
from moldau.connectors.jdbc.horizon import Horizon
Horizon._limit = lambda self, bound, look: bound
""",
        {"commits": "late"},
    ),
    "a sink that refuses a record gets the batch again": Fault(
        """
from moldau.connect.task.pending import Pending
from moldau.connectors.jdbc.sink_task import JdbcSinkTask
def refuse(self, record, error):
    raise error
JdbcSinkTask._report = refuse  # as a sink does that raises DataError
Pending.put_records = lambda self, put, report: put(self.records)
""",
        {"bad": "refused"},
    ),
}


@contextmanager
def opened() -> Iterator[Run]:
    """Start the broker and the registry of all cases, and PostgreSQL when a case needs it."""
    with ExitStack() as on_end:
        folder = Path(on_end.enter_context(tempfile.TemporaryDirectory(prefix="moldau-pairs-")))
        broker = on_end.enter_context(MoldauBroker(folder / "broker"))
        _, registry = on_end.enter_context(process(broker.bootstrap_servers))
        databases = _Databases(folder, on_end)

        def run(case: Case) -> list[str]:
            both = databases.new(case["database"]), databases.new(case["database"])
            return run_case(broker, registry, folder, both, case)

        yield run


class _Databases:
    """New databases of both kinds."""

    def __init__(self, folder: Path, on_end: ExitStack) -> None:
        self._folder = folder
        self._on_end = on_end
        self._server: sa.URL | None = None

    def new(self, kind: str) -> TestDatabase:
        name = f"db_{uuid.uuid4().hex[:12]}"
        if kind == "sqlite":
            return TestDatabase(kind, f"jdbc:sqlite:{self._folder}/{name}.db")
        if self._server is None:
            self._server = sa.make_url(self._on_end.enter_context(postgresql_address()))
        admin = sa.create_engine(self._server, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        url = self._server.set(database=name).render_as_string(hide_password=False)
        return TestDatabase(kind, url)


SUITE: Final = Suite(COLUMNS, allowed, opened, FAULTS)
