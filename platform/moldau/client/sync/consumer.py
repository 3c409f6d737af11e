"""The consumer for threads: records of partitions that it is told to read, or that its group gives.

    with Consumer(bootstrap_servers="localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            ...                       # or: for part in consumer.poll(1.0): part.records

It fetches ahead and beats for its group on the loop's thread while yours works. All that a
rebalance wants of you happens inside your `poll`, in your thread, so a listener may commit and
seek. Iterating takes a poll's records over at once: one hop to the loop for all of them.

Invariants: a consumer is read by one thread at a time, any thread may close it: while a thread goes
through records or parts, until it leaves them or ends, no other may read (looked at when another
begins to and with every poll, so no record costs a look); records that an interrupted poll had
found are given by the next one, and are not committed before.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack

from moldau.client.consumer.backlog import Backlog
from moldau.client.consumer.columns import PartitionColumns
from moldau.client.consumer.consumer import Consumer as AsyncConsumer
from moldau.client.consumer.interceptors import ConsumerInterceptor
from moldau.client.consumer.membership import OffsetsGiven
from moldau.client.consumer.options import ConsumerOptions
from moldau.client.consumer.records import PartitionRecords
from moldau.client.group.listener import RebalanceListener, check_listener
from moldau.client.group.subscription import Pattern
from moldau.client.serdes.contract import DeserializerTo
from moldau.client.settings.arguments import PartitionGiven, flag_or_none
from moldau.client.settings.notices import not_hiding
from moldau.client.sync.client import ClientState
from moldau.client.sync.consumer_calls import ConsumerCalls
from moldau.link.arguments import seconds
from moldau.link.lifetime import ClientClosed, closed
from moldau.link.metadata import TopicPartition
from moldau.records import ConsumerRecord, K, V
from moldau.runtime import Runtime
from moldau.runtime.loop_thread import (
    Errands,
    WrongThread,
    new_lock,
    new_shared_lock,
    this_thread,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

_CLOSE_S: Final = 30.0
_COLUMNS_MAX: Final = 100_000
_ITERATION_S: Final = 60.0
_READ_ELSEWHERE: Final = (
    "another thread reads with this consumer: give each thread a consumer of its own, and commit "
    "here with offsets, or there"
)


class _ReadElsewhere(AsyncConsumer):
    """The consumer on the loop, whose records a thread works on while it waits for that thread."""

    def __init__(self, settings: Mapping[str, object], **given: Any) -> None:
        super().__init__(settings, **given)
        self._out = Backlog(new_shared_lock())

    def records(self) -> Iterator[ConsumerRecord]:
        """What `fill` has brought and was not given out yet, one by one."""
        return self._out.records()

    async def fill(self, timeout_s: float) -> None:
        """Polls for `records`."""
        self._out.add(await self.poll(timeout_s))

    def fail(self) -> None:
        """The thread gave up in the midst of what it was given: that is not to be committed."""
        self._has_failed = True

    async def drop(self) -> None:
        """Ends it, and commits nothing by itself."""
        self.fail()
        await self._close(0.0)

    def take_back(self, parts: list[PartitionRecords]) -> None:
        """These were found, but not given out: they are the next ones again."""
        self._out.take_back(parts)

    def take_back_columns(self, parts: list[PartitionColumns]) -> None:
        """The same of columns."""
        self._pipeline.fetch_again(parts)


class _ListenerInThread(RebalanceListener):
    """A listener that is called by the thread that polls."""

    def __init__(
        self, listener: RebalanceListener, errands: Errands, listening: list[object]
    ) -> None:
        self._listener = listener
        self._errands = errands
        self._listening = listening

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._tell(partial(self._listener.on_partitions_revoked, partitions))

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._tell(partial(self._listener.on_partitions_assigned, partitions))

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._tell(partial(self._listener.on_partitions_lost, partitions))

    async def _tell(self, method: Callable[[], object]) -> None:
        # In the context of this task: the session shall know what the listener calls.
        told = copy_context()
        result = await self._errands.run(lambda: told.run(self._listen, method))
        if inspect.isawaitable(result):
            await result

    def _listen(self, method: Callable[[], object]) -> object:
        thread = this_thread()
        self._listening.append(thread)
        try:
            return method()
        finally:
            self._listening.remove(thread)


class Consumer(ConsumerCalls, Generic[K, V]):
    """Reads records. Belongs to one thread at a time."""

    kind = "consumer"
    is_shareable = False
    _client: _ReadElsewhere

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        interceptors: Sequence[ConsumerInterceptor] = (),
        key_deserializer: DeserializerTo[K] = None,
        value_deserializer: DeserializerTo[V] = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        """`settings` by Kafka's names, `options` the same with underscores: these win.

        A deserializer is an object (`moldau.client.serdes`), a function of the bytes, or a name as
        in the settings `key.deserializer` and `value.deserializer`; without one it gives bytes.
        Deserializers and interceptors are called on the loop's thread.
        """
        objects = {
            "interceptors": tuple(interceptors),
            "key_deserializer": key_deserializer,
            "value_deserializer": value_deserializer,
        }
        super().__init__(settings, {**objects, **options})
        self._client = self._make()
        self.settings = self._client.settings
        self._errands = Errands()
        self._reader = new_lock()
        self._reads: object = None
        self._inside: list[object] = []
        """The threads that go through records or parts, once for each time."""
        self._listening: list[object] = []
        """The threads that a listener runs in."""

    def _make(self, runtime: Runtime | None = None) -> _ReadElsewhere:
        settings, options = self._given
        return _ReadElsewhere(settings, runtime=runtime, **options)

    async def _begin(self, runtime: Runtime) -> None:
        self._client = self._make(runtime)
        await self._client.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._client.fail()
        with not_hiding(kind):
            self.close()

    def close(self, timeout_s: float = _CLOSE_S, *, leave_group: bool | None = None) -> None:
        """Commits, if that is to be done by itself, tells the listener, leaves the group, and
        closes the connections; a poll that waits fails.

        May be called again, by any thread, also by several at once: each returns when it is closed,
        but one that a listener runs in returns at once, as the close may wait for the listener.

        At the end of a `with` that an exception ends nothing is committed any more by itself:
        the caller is not done with what the last poll gave, so it is read again. The same goes for
        another thread than the one that read last, which may still work on what it was given.

        Unless it is told by `leave_group`, a static member stays in its group until its session
        ends, so that it finds its partitions again, and any other member leaves (KIP-1092).
        """
        timeout_s = seconds(timeout_s, "timeout_s")
        leave_group = flag_or_none(leave_group, "leave_group")
        self._check_may_close()
        if self._reads not in (None, this_thread()):
            self._client.fail()
        waits = this_thread() not in self._listening
        closing = self._client.aclose(timeout_s, leave_group=leave_group)
        self._end(closing, self._errands, waits=waits)

    async def _drop(self) -> None:
        await self._client.drop()

    def forked(self) -> None:
        """The child does not poll."""
        super().forked()
        self._reader = new_lock()
        self._inside = []

    # Which partitions

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: Pattern | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Shares the partitions of these topics with the group, from the next poll on; replaces
        what was subscribed to. An empty list of them is `unsubscribe`, as Java's client has it. The
        listener is called by the thread that polls, in its `poll`.

        A `pattern` matches whole names, of topics that come later too: a compiled one is Python's
        and matched here; a string is matched here with the classic protocol, and by the coordinator
        (RE2) with group.protocol=consumer.
        """
        check_listener(listener)
        told = (
            None
            if listener is None
            else _ListenerInThread(listener, self._errands, self._listening)
        )
        subscribing = self._client.subscribe(topics, pattern=pattern, listener=told)
        self._call(subscribing, errands=self._errands)

    def unsubscribe(self) -> None:
        """Reads nothing any more; in a group, gives everything up as in a rebalance, and leaves."""
        self._read(self._client.unsubscribe())

    # Records out

    def poll(
        self,
        timeout_s: float = 0.0,
        *,
        max_records: int | None = None,
        partitions: Iterable[PartitionGiven] | None = None,
    ) -> list[PartitionRecords[K, V]]:
        """Records as soon as there are some, an empty list when the time is over before. What
        deserializers wait for, a schema say, is waited for beside that: a registry that is away
        costs what its own time-outs and retries allow.

        At most `max_records`, else `max.poll.records`. Raises what keeps a partition from being
        read: KafkaError or CorruptRecord, with topic, partition and offset; and what keeps the
        member out of its group. What the last poll gave counts as done: it may be committed now.

        `partitions` limits it to records and errors of these. The others are fetched ahead as far
        as there is room, and given by a later poll. KafkaError for one that is not assigned, or
        whose topic the group does not subscribe to.
        """
        found = self._client.poll(timeout_s, max_records=max_records, partitions=partitions)
        return self._read(found, self._client.take_back)

    def poll_batches(
        self,
        timeout_s: float = 0.0,
        *,
        max_records: int = _COLUMNS_MAX,
        partitions: Iterable[PartitionGiven] | None = None,
    ) -> list[PartitionColumns]:
        """As `poll`, with offsets, timestamps, keys, values and headers as columns in buffers: many
        times cheaper where no record is wanted as an object.

        Batches are given whole: the last one may bring more than `max_records`. Keys and values are
        as they are in the log, no deserializer sees them. ValueError if the consumer has
        interceptors, which look at records.
        """
        found = self._client.poll_batches(timeout_s, max_records=max_records, partitions=partitions)
        return self._read(found, self._client.take_back_columns)

    def getone(self, partitions: Iterable[PartitionGiven] | None = None) -> ConsumerRecord[K, V]:
        """The next record, of these partitions if any are named. It is at hand until more is asked
        for. ClientClosed if the consumer is closed meanwhile."""
        for part in self.batches(max_records=1, partitions=partitions):
            return part.records[0]
        raise closed(self.kind)

    def getmany(
        self,
        partitions: Iterable[PartitionGiven] | None = None,
        *,
        timeout_s: float = 0.0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord[K, V]]]:
        """As `poll`, with whole records by partition."""
        found = self._client.getmany(partitions, timeout_s=timeout_s, max_records=max_records)
        return self._read(found)

    def batches(
        self, *, max_records: int | None = None, partitions: Iterable[PartitionGiven] | None = None
    ) -> Iterator[PartitionRecords[K, V]]:
        """Records by partition for as long as the consumer is open. May be left and taken up again;
        a commit inside covers the part at hand and those before it. `partitions`: as `poll`."""
        with self._going_through():
            if self.is_over:
                return
            parts = self._client.batches(max_records=max_records, partitions=partitions)
            while not self.is_over:
                self._reads = this_thread()
                part = parts.at_hand()
                if part is None:
                    self._fill(parts.fill())
                else:
                    yield part

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        """Records one by one for as long as the consumer is open. May be left and taken up again;
        a commit inside covers the record at hand and those before it."""
        is_open = ClientState.OPEN  # looked up once, not with every record
        with self._going_through():
            while not self.is_over:
                client = self._client
                self._reads = this_thread()
                for record in client.records():
                    yield record
                    if self._state is not is_open:
                        return
                self._fill(client.fill(_ITERATION_S))

    def _fill(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Reads on; nothing where the consumer was closed meanwhile, which is the end."""
        try:
            self._read(coroutine)
        except ClientClosed:
            if not self.is_over:
                raise

    @contextmanager
    def _going_through(self) -> Iterator[None]:
        """Until this thread has left what it goes through, no other reads; one that is handed an
        iterator that another has begun does not either. It has no end in a forked process."""
        thread = this_thread()
        self._take_turn()
        try:
            self._inside.append(thread)
        finally:
            self._reader.release()
        try:
            yield
        finally:
            if thread in self._inside:  # not after a fork
                self._inside.remove(thread)
        if self.is_forked:
            raise self._refusal()

    def _read(
        self, coroutine: Coroutine[Any, Any, T], salvage: Callable[[T], None] | None = None
    ) -> T:
        """What the coroutine gives, while this thread does what a rebalance wants of it."""
        try:
            self._take_turn()
        except WrongThread:
            coroutine.close()
            raise
        self._reads = this_thread()
        try:
            return self._call(coroutine, errands=self._errands, salvage=salvage)
        finally:
            self._reader.release()

    def _take_turn(self) -> None:
        """No other thread is in the midst of a poll or of what it goes through. At the end one may
        be on its way out of it."""
        wait_s = _CLOSE_S if self._state is ClientState.CLOSING else 0.0
        if not self._reader.acquire(timeout=wait_s):
            raise WrongThread(_READ_ELSEWHERE)
        if self._inside and self._state is not ClientState.CLOSING:
            mine = this_thread()
            if any(each is not mine and _is_alive(each) for each in self._inside):
                self._reader.release()
                raise WrongThread(_READ_ELSEWHERE)

    # Offsets

    def commit(
        self, offsets: OffsetsGiven | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Stores where the group goes on: behind all that was given out, or at these offsets (each
        a number or an `OffsetAndMetadata`: the offset of the next record to read).

        Returns when it is stored. KafkaError names the partition, and tells when this consumer is
        no member any more. WrongThread without offsets while another thread polls, or goes through
        records or batches: it would cover what that one has in hand.
        """
        if offsets is not None:
            self._call(self._client.commit(offsets, timeout_s=timeout_s))
            return
        self._take_turn()
        try:
            self._call(self._client.commit(timeout_s=timeout_s))
        finally:
            self._reader.release()

    def commit_soon(self, offsets: OffsetsGiven | None = None) -> Future[None]:
        """As `commit`, without waiting. Errors come out only where the result is asked for.
        Offsets are taken now, and commits are stored in the order in which they were begun."""
        if offsets is None:
            self._take_turn()
        try:
            task = self._run(lambda: self._client.commit_soon(offsets))
        finally:
            if offsets is None:
                self._reader.release()
        return self._spawn(_outcome(task))


async def _outcome(begun: Awaitable[None]) -> None:
    await begun


def _is_alive(thread: Any) -> bool:
    """Whether it may still work on what it was given."""
    return bool(thread.is_alive())
