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
    # No high watermark was noted before the kill, and followers ask late, as on a busy machine: for
    # so long a new leader does not know the end.
    "an end is told too low after an election": Fault(
        """
import asyncio
from moldau.broker.log import checkpoints
from moldau.broker.replication import ends, fetcher
ends.check_end = lambda partition: None
read = checkpoints.read_offsets
checkpoints.read_offsets = lambda files, path: (
    {} if path.endswith("/replication-offset-checkpoint") else read(files, path)
)
run = fetcher.LeaderFetcher._run
async def run_late(self):
    await asyncio.sleep(2)
    await run(self)
fetcher.LeaderFetcher._run = run_late
""",
        {"nodes": "3", "fault": "kill all"},
    ),
    "a retention that was unset goes on": Fault(
        """
from dataclasses import replace
from moldau.broker.log import retention
counted, least = retention.count_expired, {}
def count_expired(segments, config, *when):
    found = [each for each in (config.retention_ms, least.get(segments)) if each not in (None, -1)]
    least[segments] = min(found, default=-1)
    return counted(segments, replace(config, retention_ms=least[segments]), *when)
retention.count_expired = count_expired
""",
        {"topic": "short retention"},
    ),
    "local segments go before they are copied": Fault(
        """
from moldau.broker.tiered import expiry
expiry.copied_end = lambda remote, log: log.high_watermark
""",
        {"topic": "tiered"},
    ),
    "a fetch tells of one aborted transaction": Fault(
        """
from moldau.broker.log import reading
collected = reading.collect_aborted
reading.collect_aborted = lambda *given: collected(*given)[:1]
""",
        {"sender": "aborting", "isolation": "read_committed"},
    ),
    "offsets of other topics go with a deleted one": Fault(
        """
from moldau.broker.coordinator.group.offsets import Offsets
chosen = Offsets.places_of_topics
def places(self, topics):
    topics = list(topics)
    every = {topic for groups in self._groups.values() for topic in groups}
    return chosen(self, every if topics else topics)
Offsets.places_of_topics = places
""",
        {"change": "other topic made anew"},
    ),
    "a new topic begins on any broker": Fault(
        """
from moldau.broker.controller import placement
placement._start = lambda preferred, random: random.randrange(len(preferred))
""",
        {"nodes": "3", "change": "new topics"},
    ),
    "a batch that was sent again is appended again": Fault(
        """
from moldau.broker.log.producer_state import ProducerAppend
ProducerAppend._judge = lambda self, entry, header, offset: None
""",
        {"sender": "pipelined", "fault": "disconnect"},
    ),
    "a reader keeps its position in a topic that was made anew": Fault(
        """
from moldau.client.consumer.position import Position
from moldau.ids import ZERO_UUID
named = Position.name_topic
def name_topic(self, topic_id, *given):
    if self.topic_id == ZERO_UUID:
        return named(self, topic_id, *given)
    self.identity.topic_id = topic_id
    return False
Position.name_topic = name_topic
""",
        {"client": "ours", "change": "source made anew"},
    ),
}


@contextmanager
def opened() -> Iterator[Run]:
    """Make clusters as cases need them."""
    with ExitStack() as on_end:
        scenes = Scenes(on_end)
        yield lambda case: run_case(scenes.of(case), case)


SUITE: Final = Suite(COLUMNS, allowed, opened, FAULTS)
