"""A shard of transactions with a log that is a list: what the runtime does, without it.

at = Table()
at.init("app")                       # InitProducerId; what it answered
at.add("app", ("t", 0)); at.end("app", commit=True)
at.write_markers()                   # all that are wanted
at.reloaded()                        # another shard, made of the log
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket
from moldau.broker.coordinator.transaction.effects import WriteMarkers
from moldau.broker.coordinator.transaction.ending import end_transaction, on_markers_written
from moldau.broker.coordinator.transaction.membership import (
    JoiningPartitions,
    add_partitions,
    verify_partitions,
)
from moldau.broker.coordinator.transaction.producers import Producer, init_producer
from moldau.broker.coordinator.transaction.state import TopicPartition, Transaction
from moldau.broker.coordinator.transaction.transactions import Transactions
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import LogKey
from moldau.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from moldau.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from moldau.protocol.schemas.coordinator_log import TRANSACTION_LOG
from tests.broker.api.administered import settings

WALL_MS = 1_700_000_000_000
ID = "app"
TIMEOUT_MS = 60_000
Decide = Callable[[Transactions, Ticket, int], Outcome]


class SmallWorld:
    """Satisfies `transaction.services.TransactionServices`."""

    def __init__(self, transaction_version: int, **named: str) -> None:
        self.settings = settings(**named)
        self.transaction_version = transaction_version
        self.next_id = 1000
        self.has_ids = True

    def wall_ms(self, now_ms: int) -> int:
        return WALL_MS + now_ms

    def new_producer_id(self) -> int:
        if not self.has_ids:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.next_id += 1
        return self.next_id


class Table:
    """See the module. A KafkaError is raised as the answer."""

    def __init__(self, transaction_version: int = 2, **named: str) -> None:
        self.world = SmallWorld(transaction_version, **named)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.effects: list[WriteMarkers] = []
        self.now_ms = 0
        self.rejections: list[KafkaError] = []
        self.shard = Transactions(self.world)
        assert self.shard.settle(0) is None

    # Requests.

    def ask(self, decide: Decide) -> Any:
        """The answer, once the outcome is carried out."""
        heard: list[Any] = []
        ticket = heard.append
        self.do(decide(self.shard, ticket, self.now_ms), ticket)
        (answer,) = heard
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def init(
        self, name: str = ID, producer: tuple[int, int] = (-1, -1), timeout_ms: int = TIMEOUT_MS
    ) -> Producer:
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer[0],
            producer_epoch=producer[1],
        )
        answer = self.ask(lambda shard, ticket, now: init_producer(shard, request, ticket, now))
        assert isinstance(answer, InitProducerIdResponse)
        return Producer(answer.producer_id, answer.producer_epoch)

    def add(self, producer: Producer, *partitions: tuple[str, int], version: int = 2) -> None:
        joining = JoiningPartitions(ID, producer, _set(partitions), version)
        self.ask(lambda shard, ticket, now: add_partitions(shard, joining, ticket, now))

    def verify(self, producer: Producer, *partitions: tuple[str, int]) -> dict[int, int]:
        joining = JoiningPartitions(ID, producer, _set(partitions))
        answer = self.ask(lambda shard, ticket, now: verify_partitions(shard, joining, ticket))
        return {
            row.partition_index: row.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        }

    def end(self, producer: Producer, *, commit: bool, version: int = 2) -> Producer:
        """EndTxn; the producer with which the client continues."""
        request = EndTxnRequest(
            transactional_id=ID,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        answer = self.ask(
            lambda shard, ticket, now: end_transaction(shard, request, version, ticket, now)
        )
        assert isinstance(answer, EndTxnResponse)
        return Producer(answer.producer_id, answer.producer_epoch)

    # The runtime.

    def do(self, outcome: Outcome, ticket: Ticket = None) -> None:
        """Append, replay, answer, and release the effects."""
        if outcome.records and self.rejections:
            error = self.rejections.pop(0)
            if outcome.on_failure is not None:
                self.do(outcome.on_failure(error, self.now_ms), ticket)
                return
            outcome = Outcome(answers=tuple((each, error) for each, _ in outcome.answers))
        for record in outcome.records:
            self._append(record)
        for each, answer in outcome.answers:
            assert each is ticket
            cast(Any, each)(answer)
        self.effects += cast("tuple[WriteMarkers, ...]", outcome.effects)

    def _append(self, record: LogRecord) -> None:
        value = None
        if record.value is not None:
            assert record.version is not None
            value = TRANSACTION_LOG.encode_value(record.value, record.version)
        self.log.append((TRANSACTION_LOG.encode_key(record.key), value))
        self.shard.replay(len(self.log) - 1, -1, record.key, record.value, self.now_ms)

    def write_markers(self) -> list[WriteMarkers]:
        """Write all markers that are wanted, and report it. Which they were."""
        written, self.effects = self.effects, []
        for effect in written:
            self.report(effect, effect.partitions)
        return written

    def report(self, effect: WriteMarkers, partitions: Iterable[tuple[str, int]]) -> list[Any]:
        """What the reporter hears: nothing, or the error of the log."""
        heard: list[Any] = []
        refused, written = heard.append, _set(partitions)
        outcome = on_markers_written(self.shard, effect, written, refused, self.now_ms)
        self.do(outcome, refused)
        return heard

    def reloaded(self) -> Table:
        """Another coordinator loads the log."""
        self.shard = Transactions(self.world)
        self.effects = []
        for offset, (key, value) in enumerate(self.log):
            read: tuple[LogKey, Any] = TRANSACTION_LOG.decode(key, value)
            self.shard.replay(offset, -1, *read, self.now_ms)
        while (more := self.shard.settle(self.now_ms)) is not None:
            self.do(more)
        return self

    def pass_ms(self, count: int) -> None:
        """Time passes; what is due happens."""
        self.now_ms += count
        for _ in range(100):
            due_ms = self.shard.next_deadline_ms()
            if due_ms is None or due_ms > self.now_ms:
                return
            self.do(self.shard.on_tick(self.now_ms))
        raise AssertionError("the ticks do not end")

    # Facts.

    def known(self, name: str = ID) -> Transaction:
        found = self.shard.get(name)
        assert found is not None
        return found


def _set(partitions: Iterable[tuple[str, int]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(*each) for each in partitions)
