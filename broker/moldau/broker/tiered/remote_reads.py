"""The remote reads of one node: how many run at once, what waits for them, and what they brought.

Invariants:
- Requests for the same records at the same time share one read.
- What a read brought is kept for a while, also if its request was answered without it: the client
  asks again, and then the records are there. So a store that is slower than
  `remote.fetch.max.wait.ms` does not stop a consumer, and local partitions of the same fetch, which
  are answered at once, do not starve a remote one. An error is not kept.
- Memory: `kept_bytes_max` of records, and what the reads that run bring. A read that has no place
  among those that run waits. If too many wait, or the quota is used up, no read begins: the request
  gets no records, and the client asks again.
- Every receiver is called once, on the event loop, also if the node stops.
- What is fetched ahead of readers takes no place of theirs, and its failure is found by the reader
  that wants it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from moldau.deferred import dataclass
from moldau.errors import MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.logging.gathering import GatheredWarnings

if TYPE_CHECKING:
    import asyncio

    from moldau.broker.log.slice import LogSlice
    from moldau.broker.log.transaction_index import AbortedTransaction
    from moldau.broker.tiered.remote_segment import SegmentId
    from moldau.logging import Logger
    from moldau.runtime import Runtime

_NS_PER_MS: Final = 1_000_000
_AHEAD_MAX: Final = 2
"""How many segments are prepared at once."""


class FetchQuota(Protocol):
    """The rate of remote reads, as `remote.log.manager.fetch.max.bytes.per.second` limits it."""

    def is_exceeded(self, now_ms: int) -> bool: ...

    def record(self, size_bytes: int, now_ms: int) -> None: ...


class Receiver(Protocol):
    """Takes what a read brings, once."""

    def arrive(self, records: LogSlice, aborted: Sequence[AbortedTransaction] = ()) -> None: ...

    def fail(self, error: KafkaError) -> None: ...


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of a node, by Kafka's settings where it has one."""

    running_max: int = 10
    """`remote.log.reader.threads`"""
    waiting_max: int = 100
    """`remote.log.reader.max.pending.tasks`"""
    kept_bytes_max: int = 2 << 20


@dataclass(slots=True)
class ReadCounts:
    """The reads since the start, for metrics."""

    requests: int = 0
    """Those that did begin, or wait."""
    refused: int = 0
    """Reads that did not begin, because too many waited."""
    throttled: int = 0
    """Reads that did not begin, because the quota was used up."""


class FetchedRecords(NamedTuple):
    """What a read brought."""

    records: LogSlice
    aborted: Sequence[AbortedTransaction]
    next_offset: int
    segment_id: SegmentId | None
    """The segment that it is of. None: it is not to be kept."""


Work: TypeAlias = Callable[[], Coroutine[Any, Any, FetchedRecords]]
"""Reads. Raises KafkaError if that fails."""


class ReadKey(NamedTuple):
    """What is read."""

    partition: Hashable
    offset: int
    is_committed: bool


class RemoteRead:
    """One read, from its request until nothing of it is kept any more."""

    __slots__ = ("_receivers", "key", "result", "upper", "work")

    def __init__(self, key: ReadKey, upper: int, work: Work) -> None:
        self.key = key
        self.upper = upper
        """The offset before which it reads."""
        self.work = work
        self.result: FetchedRecords | KafkaError | None = None
        self._receivers: list[Receiver] = []

    def give_to(self, receiver: Receiver) -> None:
        """Give the receiver what the read brought: now, or when it is there."""
        if self.result is None:
            self._receivers.append(receiver)
        else:
            _give(self.result, receiver)

    def end(self, result: FetchedRecords | KafkaError) -> None:
        """Note what the read brought."""
        self.result = without_frames(result)
        receivers, self._receivers = self._receivers, []
        for each in receivers:
            _give(self.result, each)


def _give(result: FetchedRecords | KafkaError, receiver: Receiver) -> None:
    if isinstance(result, KafkaError):
        receiver.fail(result)
    else:
        receiver.arrive(result.records, result.aborted)


class RemoteReads:
    """All remote reads of a node; see the module."""

    def __init__(
        self,
        runtime: Runtime,
        log: Logger,
        limits: ReadLimits | None = None,
        quota: FetchQuota | None = None,
    ) -> None:
        self.runtime = runtime
        self.limits = limits or ReadLimits()
        """Replaced as a whole if settings change."""
        self.quota = quota
        """None: there is no limit."""
        self.counts = ReadCounts()
        self._warnings = GatheredWarnings(log, lines=1)
        self._reads: OrderedDict[ReadKey, RemoteRead] = OrderedDict()
        """Those that run, wait or have ended; the newest last."""
        self._waiting: deque[RemoteRead] = deque()
        self._tasks: dict[RemoteRead, asyncio.Task[None]] = {}
        self._ahead: set[asyncio.Task[None]] = set()
        self._kept_bytes = 0

    @property
    def running_count(self) -> int:
        return len(self._tasks)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def kept_bytes(self) -> int:
        """The bytes of records that are kept for requests to come."""
        return self._kept_bytes

    def find(self, key: ReadKey) -> RemoteRead | None:
        """Return the read of the same records that runs, or whose records are kept."""
        return self._reads.get(key)

    def begin(self, key: ReadKey, upper: int, work: Work) -> RemoteRead | None:
        """Read now or when it is its turn. None: not now."""
        self.forget(key)
        limits, quota = self.limits, self.quota
        if quota is not None and quota.is_exceeded(self._now_ms()):
            self.counts.throttled += 1
            return None
        has_place = len(self._tasks) < limits.running_max
        if not has_place and len(self._waiting) >= limits.waiting_max:
            self.counts.refused += 1
            return None
        self.counts.requests += 1
        read = self._reads[key] = RemoteRead(key, upper, work)
        if has_place:
            self._run(read)
        else:
            self._waiting.append(read)
        return read

    def fetch_ahead(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Do what a reader will want soon. Return whether there is a place for it."""
        if len(self._ahead) >= _AHEAD_MAX:
            return False
        task = self.runtime.spawn(_quietly(work), name="remote fetch ahead")
        self._ahead.add(task)
        task.add_done_callback(self._ahead.discard)
        return True

    def forget(self, key: ReadKey) -> None:
        """Keep nothing of a read. One that runs still serves what waits for it."""
        read = self._reads.pop(key, None)
        if read is not None:
            self._kept_bytes -= _size(read)

    def end_of_partition(self, partition: Hashable) -> None:
        """End the reads of a partition. Receivers that wait get an error to try again after."""
        of_it = [read for read in self._reads.values() if read.key.partition is partition]
        for read in of_it:
            self.forget(read.key)
        for read in [*self._tasks, *self._waiting]:
            if read.key.partition is partition:
                self._cancel(read)

    def close(self) -> None:
        """End all reads."""
        self._reads.clear()
        self._kept_bytes = 0
        for task in self._ahead:
            task.cancel()
        for read in [*self._tasks, *self._waiting]:
            self._cancel(read)

    def warn(self, event: str, **facts: object) -> None:
        """Log a warning. Of one event there is one line a minute, and a count of the others."""
        self._warnings.warn(event, self._now_ms() / 1000, **facts)

    def _cancel(self, read: RemoteRead) -> None:
        task = self._tasks.get(read)
        if task is not None:
            task.cancel()
        else:
            self._waiting.remove(read)
        if read.result is None:
            read.end(KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, "remote reads have ended"))

    def _run(self, read: RemoteRead) -> None:
        name = f"remote read at {read.key.offset}"
        self._tasks[read] = self.runtime.spawn(self._reading(read), name=name)

    async def _reading(self, read: RemoteRead) -> None:
        result: FetchedRecords | KafkaError | None = None
        try:
            result = await read.work()
        except KafkaError as error:
            result = without_frames(error)
        finally:
            del self._tasks[read]
            self._end(read, result or KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE))
            while self._waiting and len(self._tasks) < self.limits.running_max:
                self._run(self._waiting.popleft())

    def _end(self, read: RemoteRead, result: FetchedRecords | KafkaError) -> None:
        if read.result is not None:  # it was ended from outside
            return
        read.end(result)
        is_known = self._reads.get(read.key) is read
        if not isinstance(result, KafkaError) and self.quota is not None:
            self.quota.record(len(result.records), self._now_ms())
        if isinstance(result, KafkaError) or result.segment_id is None:
            if is_known:
                del self._reads[read.key]
        elif is_known:
            self._reads.move_to_end(read.key)
            self._kept_bytes += _size(read)
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        if self._kept_bytes <= self.limits.kept_bytes_max:
            return
        for read in list(self._reads.values()):
            if _size(read) and self._kept_bytes > self.limits.kept_bytes_max:
                self.forget(read.key)

    def _now_ms(self) -> int:
        return self.runtime.clock.monotonic_ns() // _NS_PER_MS


async def _quietly(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with suppress(MoldauError):
        await work()


def _size(read: RemoteRead) -> int:
    return len(read.result.records) if isinstance(read.result, FetchedRecords) else 0
