"""A shard of share states with a log that is a list: what the runtime does, without it.

at = Table()
at.initialize(KEY, start_offset=5)
at.write(KEY, Run(5, 9, 2, 1)); at.read(KEY, leader_epoch=3)
at.reloaded()                        # another shard, made of the log
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moldau.broker.coordinator.outcome import Effect, Outcome, Ticket
from moldau.broker.coordinator.share import requests
from moldau.broker.coordinator.share.combining import Run
from moldau.broker.coordinator.share.state import SharePartitionKey
from moldau.broker.coordinator.share.states import ShareStates
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid
from moldau.protocol.messages import initialize_share_group_state as initializing
from moldau.protocol.messages import read_share_group_state as reading
from moldau.protocol.messages import write_share_group_state as writing
from moldau.protocol.schemas.coordinator_log import SHARE_LOG
from tests.broker.api.administered import settings

WALL_MS = 1_700_000_000_000
TOPIC_ID = bytes(15) + b"\x07"
KEY = SharePartitionKey("mailer", TOPIC_ID, 0)
Decide = Callable[[ShareStates, Ticket, int], Outcome]


class SmallWorld:
    """Satisfies `share.services.ShareStateServices`: one topic with two partitions."""

    knows_topics = True

    def __init__(self, **named: str) -> None:
        self.settings = settings(**named)
        self.topics: dict[Uuid, int] = {TOPIC_ID: 2}

    def wall_ms(self, now_ms: int) -> int:
        return WALL_MS + now_ms

    def partition_count(self, topic_id: Uuid) -> int:
        return self.topics.get(topic_id, 0)


class Table:
    """See the module. A KafkaError is raised as the answer."""

    def __init__(self, **named: str) -> None:
        self.world = SmallWorld(**named)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.effects: list[Effect] = []
        self.now_ms = 0
        self.shard = ShareStates(self.world)
        assert self.shard.settle(0) is None

    def ask(self, decide: Decide) -> Any:
        """The one partition of the answer."""
        heard: list[Any] = []
        self.do(decide(self.shard, heard.append, self.now_ms))
        (answer,) = heard
        return answer.results[0].partitions[0]

    def do(self, outcome: Outcome) -> None:
        for record in outcome.records:
            key = SHARE_LOG.encode_key(record.key)
            value = record.value
            stored = None if value is None else SHARE_LOG.encode_value(value, record.version or 0)
            offset = len(self.log)
            self.log.append((key, stored))
            self.shard.replay(offset, -1, record.key, record.value, self.now_ms)
        for ticket, answer in outcome.answers:
            assert callable(ticket)
            if isinstance(answer, KafkaError):
                raise answer
            ticket(answer)
        self.effects += outcome.effects

    def tidy(self) -> None:
        """All that settles."""
        while (more := self.shard.settle(self.now_ms)) is not None:
            self.do(more)

    def tick(self, passed_ms: int) -> None:
        """Time passes, and the deadlines until then are handled."""
        self.now_ms += passed_ms
        while (due := self.shard.next_deadline_ms()) is not None and due <= self.now_ms:
            self.do(self.shard.on_tick(self.now_ms))

    def reloaded(self) -> ShareStates:
        """A shard that has read the log from the start."""
        shard = ShareStates(self.world)
        for offset, (key, value) in enumerate(self.log):
            shard.replay(offset, -1, *SHARE_LOG.decode(key, value), 0)
        return shard

    # Requests.

    def initialize(self, key: SharePartitionKey = KEY, start: int = -1, epoch: int = 0) -> Any:
        asked = initializing.PartitionData(
            partition=key.partition, state_epoch=epoch, start_offset=start
        )
        return self.ask(lambda shard, *rest: requests.initialize(shard, key, asked, *rest))

    def read(self, key: SharePartitionKey = KEY, leader_epoch: int = 0) -> Any:
        asked = reading.PartitionData(partition=key.partition, leader_epoch=leader_epoch)
        return self.ask(lambda shard, *rest: requests.read(shard, key, asked, *rest))

    def write(
        self,
        *runs: Run,
        key: SharePartitionKey = KEY,
        leader_epoch: int = 0,
        epoch: int = 0,
        start: int = -1,
    ) -> Any:
        asked = writing.PartitionData(
            partition=key.partition,
            state_epoch=epoch,
            leader_epoch=leader_epoch,
            start_offset=start,
            delivery_complete_count=0,
            state_batches=[
                writing.StateBatch(
                    first_offset=run.first,
                    last_offset=run.last,
                    delivery_state=run.state,
                    delivery_count=run.deliveries,
                )
                for run in runs
            ],
        )
        return self.ask(lambda shard, *rest: requests.write(shard, key, asked, *rest))

    def delete(self, key: SharePartitionKey = KEY) -> Any:
        return self.ask(lambda shard, *rest: requests.delete(shard, key, *rest))

    def summarize(self, key: SharePartitionKey = KEY) -> Any:
        return self.ask(lambda shard, *rest: requests.summarize(shard, key, *rest))
