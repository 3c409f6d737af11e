"""The suite of the cases of Connect, and the faults that it finds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.conformance.broker import MoldauBroker
from tests.connect.pairs.columns import COLUMNS, allowed
from tests.connect.pairs.databases import Databases
from tests.connect.pairs.running import Scene, run_case
from tests.registry.served import process
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
    """Start the broker and the registry of all cases, and database servers as they need them."""
    with ExitStack() as on_end:
        folder = Path(on_end.enter_context(tempfile.TemporaryDirectory(prefix="moldau-pairs-")))
        broker = on_end.enter_context(MoldauBroker(folder / "broker"))
        _, registry = on_end.enter_context(process(broker.bootstrap_servers))
        scene = Scene(broker, registry, folder, Databases(folder, on_end))
        yield lambda case: run_case(scene, case)


SUITE: Final = Suite(COLUMNS, allowed, opened, FAULTS)
