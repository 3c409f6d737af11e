"""The suite of the cases of Streams, and the faults that it finds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.streams.pairs.columns import APART, COLUMNS, allowed
from tests.streams.pairs.hosts import Host, opened_host
from tests.streams.pairs.running import run_case
from tests.testing.planting import Fault, Run, Suite

FAULTS: Final[Mapping[str, Fault]] = {
    "an attempt leaves what it did": Fault(
        """
from moldau.streams.state.journal import Journal
Journal.roll_back = lambda self, mark=0: None
""",
        {"branch": "sibling", "policy": "retry"},
    ),
    "an answer goes where its key does": Fault(
        """
from moldau.streams.dsl import joins
joins.answer_partition = lambda answer: None
""",
        {"join": "foreign key", "writer": "undeclared crc32"},
    ),
    "a record that fails is gone without a dead letter": Fault(
        """
from moldau.streams.engine import failures
failures.Failures._bury = lambda self, *_: None
""",
        {"policy": "dead letter"},
    ),
    "a row that was skipped keeps the next one back": Fault(
        """
from moldau.streams.engine.network import Network
check = Network.row_check
def new_rows_alone(self, step, *, is_old):
    return None if is_old else check(self, step, is_old=is_old)
Network.row_check = new_rows_alone
""",
        {"join": "regroup", "policy": "skip"},
    ),
    "a join stops at a row that was skipped": Fault(
        """
from moldau.streams.engine import getters
def called(call, policy, key, value):
    return call.function(key, value) if call.takes_key else call.function(value)
getters._called = called
""",
        {"join": "foreign key", "policy": "skip"},
    ),
    "an operator of a table gets no old value": Fault(
        """
from moldau.streams.engine.operators.process import ProcessOperator, Record
def on_change(self, key, value, old, time, headers):
    self._run(Record(key, value, time, tuple(headers or ())))
ProcessOperator._on_change = on_change
""",
        {"join": "table process", "guarantee": "exactly_once_v2"},
    ),
    "a restore reads the inputs again": Fault(
        """
from moldau.streams.savepoint import restoring
offsets = restoring._offsets
def begins(*given):
    return {where: each._replace(offset=0) for where, each in offsets(*given).items()}
restoring._offsets = begins
""",
        {"fault": "savepoint", "guarantee": "exactly_once_v2"},
    ),
    "lost offsets are not noticed": Fault(
        """
from moldau.streams.plan import lost_offsets
lost_offsets._missing = lambda *given: ((), False)
""",
        {"fault": "forgotten"},
    ),
    "a task comes to its next worker before the last one has given it up": Fault(
        """
from moldau.broker.coordinator.group.streams.state import StreamsGroupState
StreamsGroupState.is_free = lambda self, *given: True
""",
        {"hand-over": "stop"},
    ),
    "a task is given up before its last commit": Fault(
        """
from moldau.streams.worker.worker import Worker
async def revoked(self, partitions):
    await self._lost(partitions)
Worker._revoked = revoked
""",
        {"hand-over": "stop", "guarantee": "at_least_once"},
    ),
    "a worker that is to stop waits for ever": Fault(
        """
from moldau.streams.worker import worker
worker.HAND_OVER_S = 25.0
async def goes_on(self):
    return True
worker.Handover.goes_on = goes_on
""",
        {"hand-over": "static"},
    ),
    "a worker leaves while others could go on": Fault(
        """
from moldau.streams.worker.handover import Handover
Handover._has_heirs = lambda self, group: False
""",
        {"hand-over": "stop"},
    ),
    "a restore leaves rows in the partitions of before": Fault(
        """
from moldau.streams.savepoint import restoring
restoring._divisions = lambda *given: {}
""",
        {"fault": "divided", "guarantee": "exactly_once_v2"},
    ),
}


@contextmanager
def opened() -> Iterator[Run]:
    """Start the brokers of all cases, each when a case first needs it."""
    hosts: dict[str, Host] = {}
    with tempfile.TemporaryDirectory(prefix="moldau-pairs-") as home, ExitStack() as running:
        folder = Path(home)

        def of(choice: str) -> Host:
            if choice not in hosts:
                hosts[choice] = running.enter_context(opened_host(choice, folder))
            return hosts[choice]

        yield lambda case: run_case(of(case["host"]), folder, case)


SUITE: Final = Suite(COLUMNS, allowed, opened, FAULTS, APART)
