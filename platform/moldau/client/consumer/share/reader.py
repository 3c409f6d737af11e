"""The shell of a share consumer: runs its membership and a session with each broker, and keeps the
messages that have arrived until they are taken.

Invariants: a message is in `_arrived` or was taken, once; a message that was taken has one
acknowledgement at most. Nothing is fetched before the user asks for a message, nor while as many
are held as the window allows.

How many records to hold: records that a consumer holds wait for its handler, and no other consumer
gets them meanwhile. So a slow handler should hold few, and a quick one enough that it never waits
for the broker: about the work of half a second. Each refill says how long the last ones lasted.
"""

from __future__ import annotations

import asyncio
import math
from collections import ChainMap, Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from moldau.client.base.coordinator import Coordinator
from moldau.client.base.user_code import LOG
from moldau.client.consumer.decoding import RecordDecoder, UndecodedRecord
from moldau.client.consumer.records import FetchedRecords, PartitionRecords
from moldau.client.consumer.share.acknowledgements import (
    Acknowledgement,
    AcknowledgeType,
    AcquiredOffsets,
)
from moldau.client.consumer.share.member import ShareMember
from moldau.client.consumer.share.message import Message
from moldau.client.consumer.share.metrics import ShareMetrics
from moldau.client.consumer.share.session import (
    AcquiredFetch,
    FetchLimits,
    Outcome,
    SessionReady,
    SharePartition,
    ShareSession,
)
from moldau.client.group.member import Ready
from moldau.client.group.session import GroupSession
from moldau.deferred import dataclass
from moldau.errors import CorruptRecord, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.cluster import Cluster
from moldau.link.metadata import NO_LEADER, TopicPartition
from moldau.protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from moldau.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from moldau.records import ConsumerRecord
from moldau.runtime import Runtime
from moldau.runtime.driver import Driver
from moldau.runtime.timeouts import timeout

_RENEWS_FROM: Final = 2
_MANY: Final = 2**31 - 1
_LOST: Final = KafkaError(
    ErrorCode.INVALID_RECORD_STATE,
    "the lock of the record has ended, or the connection was lost: it is delivered again",
)


class _Broker:
    """The session with one broker, and the task that runs it."""

    def __init__(self, session: ShareSession, driver: Driver[SessionReady]) -> None:
        self.session = session
        self.driver = driver


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """How many records to hold, how to decode and check them, and where they are counted."""

    window: Window
    decoding: RecordDecoder | None
    metrics: ShareMetrics
    check_crcs: bool


class ShareReader:
    """Reads what the group assigns to this consumer."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: Cluster,
        member: ShareMember,
        limits: FetchLimits,
        holding: ReaderOptions,
    ) -> None:
        self.member = member
        self.metrics = holding.metrics
        self.window = holding.window
        self.failures: dict[TopicPartition, KafkaError] = {}
        """The last failed acknowledgement of each partition, until it is taken."""
        self._runtime = runtime
        self._clock = runtime.clock
        self._cluster = cluster
        self._limits = limits
        self._holding = holding
        self._coordinator = Coordinator(
            cluster, member.terms.group_id, purpose="ShareGroupHeartbeat"
        )
        self._group = GroupSession(
            runtime, self._coordinator, member, self._step, answered=self.retarget
        )
        self._brokers: dict[int, _Broker] = {}
        self._names: dict[SharePartition, str] = {}
        self._arrived: deque[Message[Any, Any]] = deque()
        self._news = asyncio.Event()
        """Set when there may be something for a call that waits."""
        self._waiting = 0
        self._taken_at = self._refilled_at = -math.inf
        self._is_closing = False
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Join the group, and start to read."""
        self.member.join()
        self._group.begin().add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Keep the error that has ended a task of this reader for the next call."""
        if not task.cancelled() and task.exception() is not None:
            self._error = self._error or task.exception()
            self._news.set()

    # For the user's calls

    async def take(self, count_max: int, timeout_s: float | None) -> list[Message[Any, Any]]:
        """Return up to so many messages, at least one unless the time is over or it is closed."""
        self._waiting += 1
        self._poke()
        try:
            with suppress(TimeoutError):
                async with timeout(timeout_s):
                    while True:
                        self._news.clear()
                        self._raise_error()
                        found = self._taken(count_max)
                        if found or self._is_closing:
                            return found
                        await self._news.wait()
        finally:
            self._waiting -= 1
        return []

    def _taken(self, count_max: int) -> list[Message[Any, Any]]:
        now = self._clock.monotonic()
        found: list[Message[Any, Any]] = []
        where: SharePartition | None = None
        held: Mapping[int, float] = {}
        arrived = self._arrived
        while arrived and len(found) < count_max:
            message = arrived.popleft()
            if message.where is not where:
                where, held = message.where, _locks_of(message.where, self._brokers.values())
            if now < held.get(message.record.offset, 0.0):
                found.append(message)
        if found:
            self._taken_at = now
            self._poke()
        return found

    def _raise_error(self) -> None:
        for each in self._brokers.values():
            refused, each.session.error = each.session.error, None
            if refused is not None:
                raise refused
        refused = self.member.take_error()
        if refused is not None:
            raise refused
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def acknowledge(
        self,
        message: Message[Any, Any],
        kind: AcknowledgeType,
        delay_ms: int = -1,
        reason: str | None = None,
    ) -> bool:
        """Send what became of the message; return whether it was still this consumer's."""
        given = Acknowledgement(message.offset, message.offset, kind, delay_ms, reason)
        if self._give(message.where, given):
            return True
        where = TopicPartition(message.topic, message.partition)
        self._note_failure(where, (given,), _LOST)
        return False

    def accept(self, messages: Sequence[Message[Any, Any]]) -> None:
        """Acknowledge those that are not answered, neighbours together."""
        start, follows, where = 0, -1, None
        for index, each in enumerate(messages):
            offset, is_answered = each.record.offset, each.is_answered
            if is_answered or offset != follows or each.where is not where:
                self._accept_run(messages[start:index])
                start, where = index + is_answered, each.where
            follows = -1 if is_answered else offset + 1
            each.is_answered = True
        self._accept_run(messages[start:])

    def _accept_run(self, run: Sequence[Message[Any, Any]]) -> None:
        if not run:
            return
        given = Acknowledgement(run[0].offset, run[-1].offset, AcknowledgeType.ACCEPT)
        if not self._give(run[0].where, given):
            for each in run:  # of some the locks have ended
                self.acknowledge(each, AcknowledgeType.ACCEPT)

    def _give(self, where: SharePartition, given: Acknowledgement) -> bool:
        """Have it sent by the session that holds the records. Return whether there is one."""
        now = self._clock.monotonic()
        for each in self._brokers.values():
            if each.session.acknowledge(where, given, now):
                each.driver.poke()
                return True
        return False

    def release_untaken(self) -> None:
        """Give back what has arrived and was not taken."""
        while self._arrived:
            message = self._arrived.popleft()
            self._refuse(message.where, message.offset, AcknowledgeType.RELEASE)

    async def settle(self) -> None:
        """Wait until each acknowledgement given before has its outcome."""
        while not all(each.session.is_settled for each in self._brokers.values()):
            for each in self._brokers.values():
                each.session.hurry()
                each.driver.poke()
            self._news.clear()
            self._raise_error()
            await self._news.wait()

    async def aclose(self, timeout_s: float) -> None:
        """Send what was acknowledged, give back the rest, leave the group."""
        self._is_closing = True
        self._news.set()
        until = self._clock.monotonic() + timeout_s
        tasks = [
            each.driver.task for each in self._brokers.values() if each.driver.task is not None
        ]
        for each in self._brokers.values():
            each.session.close()
            each.driver.poke()
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=timeout_s)
            self.member.leave()
            await self._group.end(max(0.05, until - self._clock.monotonic()))
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            await self._coordinator.aclose()

    # Membership

    def subscribe(self, topics: frozenset[str]) -> None:
        """Read these topics from now on; without any, those before."""
        self.member.subscribe(topics)
        self._group.poke()

    def _step(self, now: float) -> Ready:
        ready = self.member.ready(now)
        while self.member.notices:
            LOG.warning("share consumer: %s", self.member.notices.pop(0))
        if self.member.is_out:
            self._news.set()
        return ready

    def retarget(self) -> None:
        """Read what is assigned from its present leaders."""
        wanted: dict[int, set[SharePartition]] = {}
        metadata = self._cluster.metadata
        for topic_id, indexes in self.member.target.items():
            name = metadata.name_of(topic_id)
            if name is None:
                self._cluster.look_for(frozenset({topic_id}))
                self._cluster.request_refresh()
                continue
            for index in indexes:
                leader = metadata.leader_of(TopicPartition(name, index))
                if leader == NO_LEADER or leader not in metadata.brokers:
                    self._cluster.request_refresh()
                    continue
                where = SharePartition(topic_id, index)
                self._names[where] = name
                wanted.setdefault(leader, set()).add(where)
        for node_id in wanted.keys() - self._brokers.keys():
            self._open(node_id)
        for node_id, each in self._brokers.items():
            each.session.want(wanted.get(node_id, ()))
            each.driver.poke()

    def _open(self, node_id: int) -> None:
        session = ShareSession(self._limits, self._cluster.backoff, self._runtime.random)
        broker = self._brokers[node_id] = _Broker(
            session,
            Driver(
                self._runtime,
                f"share session with {node_id}",
                partial(self._ready, session),
                partial(self._act, node_id, session),
                lambda _: session.is_closed,
            ),
        )
        broker.driver.begin().add_done_callback(self._ended)

    # One broker

    def _ready(self, session: ShareSession, now: float) -> SessionReady:
        for each in self._brokers.values():
            each.session.end_locks(now)
        if self._arrived and self._is_unused(now):
            self.release_untaken()
        return session.ready(now, self._room(now))

    async def _act(self, node_id: int, session: ShareSession, ready: SessionReady) -> bool:
        await self._handle(ready)
        if ready.request is not None and not session.is_closed:
            await self._ask(node_id, session, ready.request)
            return True
        return bool(ready.fetched or ready.outcomes)

    def _room(self, now: float) -> int:
        """Return how many more records a broker may send: none before half of the held ones are
        handled, unless a call waits for more, nor if the user takes none."""
        window = self.window
        held = sum(each.session.held_count for each in self._brokers.values())
        if self._is_closing or self._is_unused(now):
            return 0
        if self._waiting and not self._arrived:
            free = min(window.size, window.size_max - held)
        else:
            free = window.size - held if held <= window.size // 2 else 0
        return 0 if free <= 0 else max(1, free // max(1, len(self._brokers)))

    def _is_unused(self, now: float) -> bool:
        """Whether the user has taken nothing for half of a lock's time."""
        lock_s = max((each.session.lock_s for each in self._brokers.values()), default=0.0)
        return not self._waiting and now - self._taken_at > lock_s / 2

    async def _ask(
        self,
        node_id: int,
        session: ShareSession,
        request: ShareFetchRequest | ShareAcknowledgeRequest,
    ) -> None:
        answer: ShareFetchResponse | ShareAcknowledgeResponse | KafkaError
        try:
            connection = await self._cluster.connection(node_id)
            version = connection.version_of(ShareAcknowledgeRequest)
            session.can_renew = version >= _RENEWS_FROM
            if isinstance(request, ShareFetchRequest):
                self._refill()
                answer = await connection.request(request, ShareFetchResponse)
                is_empty = not any(
                    each.records for topic in answer.responses for each in topic.partitions
                )
                if is_empty and self._waiting and not self._arrived:
                    self.window.on_idle()
            else:
                answer = await connection.request(request, ShareAcknowledgeResponse)
        except KafkaError as error:
            answer = without_frames(error)
        session.on_answer(answer, self._clock.monotonic())

    def _refill(self) -> None:
        """Adapt the window, if the user has taken messages since the last time."""
        if self._taken_at > self._refilled_at:
            self._refilled_at = self._clock.monotonic()
            self.window.on_refill(self._refilled_at)

    async def _handle(self, ready: SessionReady) -> None:
        for outcome in ready.outcomes:
            self._settled(outcome)
        for error in ready.moved:
            self._cluster.note(error)
            self._cluster.request_refresh()
        for each in ready.fetched:
            await self._arrive(each)
        if ready.outcomes or ready.fetched or ready.moved:
            self._news.set()

    def _settled(self, outcome: Outcome) -> None:
        counts: Counter[AcknowledgeType] = Counter()
        for each in outcome.acknowledgements:
            counts[each.type] += each.size
        if outcome.error is None:
            for kind, count in counts.items():
                self.metrics.acknowledged(kind, count)
            return
        where = TopicPartition(self._names[outcome.where], outcome.where.partition)
        self.metrics.failed(counts.total())
        self._note_failure(where, outcome.acknowledgements, outcome.error)

    def _note_failure(
        self, where: TopicPartition, given: Iterable[Acknowledgement], error: KafkaError
    ) -> None:
        told = list(given)
        facts = {"topic": where.topic, "partition": where.partition, "offset": told[0].first}
        self.failures[where] = KafkaError(error.code, error.reason, **{**error.context, **facts})
        if error is _LOST:
            self.metrics.failed(1)
        LOG.warning(
            "share consumer: %d acknowledgements have failed: %s",
            sum(each.size for each in told),
            self.failures[where],
        )

    # Records

    async def _arrive(self, fetched: AcquiredFetch) -> None:
        """Make messages of the acquired records, and acknowledge offsets without one."""
        where, acquired = fetched.where, AcquiredOffsets(fetched.acquired)
        found = 0
        for part in self._parts(fetched, acquired):
            for own, delivery_count in acquired.match(part.records):
                found += len(own)
                decoded = await self._decoded(part._replace(records=own), where)
                self._arrived.extend(
                    [Message(self, where, record, delivery_count) for record in decoded]
                )
        self.metrics.received(found, len(fetched.data))
        for first, last in acquired.left():
            self._give(where, Acknowledgement(first, last, AcknowledgeType.GAP))

    def _parts(
        self, fetched: AcquiredFetch, acquired: AcquiredOffsets
    ) -> Iterable[PartitionRecords]:
        """Yield the records of the answer. What is damaged is rejected."""
        where = TopicPartition(self._names[fetched.where], fetched.where.partition)
        left_from = fetched.acquired[0][0]
        try:
            records = FetchedRecords(where, left_from, fetched.data, None, -1)
            while (part := records.take(_MANY, check_crc=self._holding.check_crcs)) is not None:
                left_from = records.position
                yield part
            records.check_end()
        except CorruptRecord as error:
            LOG.error("share consumer: damaged records are rejected: %s", error)
            for first, last in acquired.cut_off(left_from):
                kind, reason = AcknowledgeType.REJECT, str(error)
                self._give(fetched.where, Acknowledgement(first, last, kind, reason=reason))

    async def _decoded(self, part: PartitionRecords, where: SharePartition) -> list[ConsumerRecord]:
        """Return the decoded records. One that cannot be decoded is rejected; released if another
        attempt may succeed, as when the registry does not answer."""
        if self._holding.decoding is None:
            return list(part.records)
        found: list[ConsumerRecord] = []
        left = list(part.records)
        while left:
            good, bad = await self._holding.decoding.decode([part._replace(records=left)])
            for each in good:
                found += each.records
            if not bad:
                break
            self._undecoded(where, bad[0])
            left = [each for each in left if each.offset > bad[0].offset]
        return found

    def _undecoded(self, where: SharePartition, bad: UndecodedRecord) -> None:
        may_heal = bool(getattr(bad.error.__cause__, "retriable", False))
        kind = AcknowledgeType.RELEASE if may_heal else AcknowledgeType.REJECT
        words = "released" if may_heal else "rejected"
        LOG.error("share consumer: a record is %s: %s", words, bad.error)
        self._refuse(where, bad.offset, kind, str(bad.error))

    def _refuse(
        self, where: SharePartition, offset: int, kind: AcknowledgeType, reason: str | None = None
    ) -> None:
        reason = reason if kind is AcknowledgeType.REJECT else None
        self._give(where, Acknowledgement(offset, offset, kind, reason=reason))

    def _poke(self) -> None:
        for each in self._brokers.values():
            each.driver.poke()

    def can_delay(self) -> bool:
        """Whether the broker delays a released message."""
        return self.member.extensions > 0

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions of which the topic's name is known."""
        name_of = self._cluster.metadata.name_of
        return frozenset(
            TopicPartition(name, index)
            for topic_id, indexes in self.member.target.items()
            if (name := name_of(topic_id)) is not None
            for index in indexes
        )

    def check_offers(self, what: str) -> None:
        """Raise KafkaError if the broker does not have what moldau has beyond Kafka."""
        if not self.member.extensions:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker does not have {what}: moldau has, Apache Kafka has not",
                group=self.member.terms.group_id,
            )


def _locks_of(where: SharePartition, brokers: Iterable[_Broker]) -> Mapping[int, float]:
    """Return the ends of locks by offset. While a leader moves, two brokers may have some."""
    found = [each.session.held[where] for each in brokers if where in each.session.held]
    return found[0] if len(found) == 1 else ChainMap(*found)


_FIRST: Final = 16
_SHORT_S: Final = 0.25
_LONG_S: Final = 1.0


class Window:
    """The number of records to hold. Invariant: 1 <= size <= size_max."""

    def __init__(self, size_max: int) -> None:
        self.size_max = max(1, size_max)
        self.size = min(_FIRST, self.size_max)
        self._size_min = 1
        self._filled_at: float | None = None

    def hold_at_least(self, count: int) -> None:
        """Never hold fewer: so many are handled at a time."""
        self._size_min = min(count, self.size_max)
        self.size = max(self.size, self._size_min)

    def on_refill(self, now: float) -> None:
        """Adapt the size: the records that were asked for before are handled by now."""
        before, self._filled_at = self._filled_at, now
        if before is None:
            return
        lasted_s = now - before
        if lasted_s < _SHORT_S:
            self.size = min(self.size_max, self.size * 2)
        elif lasted_s > _LONG_S:
            self.size = max(self._size_min, self.size // 2)

    def on_idle(self) -> None:
        """The queue was empty: the time until now says nothing about the handler."""
        self._filled_at = None
