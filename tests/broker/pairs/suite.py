"""The suite of the broker's cases, and the faults that it finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from tests.broker.pairs.columns import COLUMNS, allowed
from tests.broker.pairs.running import Scenes, run_case
from tests.testing.planting import Fault, Run, Suite

FAULTS: Final[Mapping[str, Fault]] = {
    "a client is judged while markers are written": Fault(
        """
from moldau.broker.coordinator.transaction.state import Transaction
Transaction.check_settled = lambda self: None
""",
        {"nodes": "3"},
    ),
    "requests of a connection pass each other": Fault(
        """
from moldau.broker.network.request import Request
Request.hold_order = lambda self: None
""",
        {"nodes": "3", "sender": "pipelined"},
    ),
    "an end is told too low after an election": Fault(
        """
from moldau.broker.replication import ends
ends.check_end = lambda partition: None
""",
        {"nodes": "3", "fault": "kill all"},
    ),
}


@contextmanager
def opened() -> Iterator[Run]:
    """Make clusters as cases need them."""
    with ExitStack() as on_end:
        scenes = Scenes(on_end)
        yield lambda case: run_case(scenes.of(case), case)


SUITE: Final = Suite(COLUMNS, allowed, opened, FAULTS)
