"""A log in a compacted topic: a fold of it, and what this worker appends.

Invariants: the topic is made with Kafka Connect's settings, or checked. Records of one key are in
one partition, so the last one read is the valid one. The leader writes in transactions of the
group's one leader id, so what is written is from the newest leader: a worker that was the leader
and does not know that it is no longer has a fenced producer, and its write fails (KIP-618).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from moldau.client import KafkaError, Producer
from moldau.connect.errors import ConnectError
from moldau.connect.storage.log import Entry, KeyedLog, OnRecord
from moldau.errors.codes import ErrorCode
from moldau.folds.leader_writer import LeaderWriter, NotLeader, Outcome
from moldau.folds.topic import FoldTopic
from moldau.folds.topic_fold import Record, TopicFold
from moldau.logging import Logger
from moldau.runtime import Runtime

TRANSACTION_MS: Final = 10_000
_CLOSE_S: Final = 5.0
"""How long `aclose` waits for a broker that may be gone. Callers of `append` wait longer
themselves, so only statuses can be pending then."""
_WRITES: Final = {"acks": "all", "linger.ms": "0", "delivery.timeout.ms": "120000"}
_FENCED: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class TopicLog(KeyedLog):
    """A log in one compacted topic."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, object],
        topic: FoldTopic,
        log: Logger,
        leader_id: str | None = None,
    ) -> None:
        """`leader_id` is the transactional id of the leader; None if it writes without one."""
        self._log = log
        self._fold = TopicFold(runtime, settings, topic, self._replay, log)
        self._producer = Producer({**settings, **_WRITES}, runtime=runtime)
        self._leader: LeaderWriter | None = None
        if leader_id is not None:
            self._leader = LeaderWriter(runtime, settings, self._fold, leader_id, TRANSACTION_MS)
        self._position = 0
        self._on_record: OnRecord | None = None

    @property
    def position(self) -> int:
        """The offset behind the last record that was read, of whatever partition: the config topic
        has one. Ends of transactions do not count, as Kafka Connect's workers do not see them."""
        return self._position

    async def start(self, on_record: OnRecord) -> None:
        self._on_record = on_record
        await self._fold.start()
        await self._producer.start()

    def _replay(self, record: Record) -> None:
        self._position = record.offset + 1
        if record.key is not None:
            assert self._on_record is not None
            self._on_record(bytes(record.key), record.value)

    async def append(self, entries: Sequence[Entry]) -> None:
        """Append the records. On return they are acknowledged and were read back."""
        topic = self._fold.topic.name
        sent = [await self._producer.send(topic, value, key=key) for key, value in entries]
        await self._producer.flush()
        await self._fold.read_back([await each for each in sent])

    @property
    def is_claimed(self) -> bool:
        return self._leader is None or self._leader.is_claimed

    async def claim(self) -> None:
        if self._leader is not None:
            await self._leader.claim()

    async def append_as_leader(self, entries: Sequence[Entry]) -> None:
        if self._leader is None:
            await self.append(entries)
            return
        try:
            await self._leader.write(lambda: Outcome(None, entries))
        except NotLeader as error:
            raise ConnectError(
                "this worker cannot write configs now: try again in a moment"
            ) from error
        except KafkaError as error:
            if error.code not in _FENCED:
                raise
            raise ConnectError(
                "another worker has become the leader: try again in a moment", error=str(error)
            ) from error

    async def read_to_end(self) -> None:
        await self._fold.catch_up()

    async def aclose(self) -> None:
        if self._leader is not None:
            await self._leader.step_down()
        await self._fold.aclose()
        try:
            await self._producer.aclose(_CLOSE_S)
        except KafkaError as error:
            self._log.warn("the last records of an internal topic were lost", error=str(error))
