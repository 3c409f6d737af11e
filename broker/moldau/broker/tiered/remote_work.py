"""What remote logs want done: records appended, objects put and deleted, with what comes of it.

Invariants: every piece of work ends with an event of its core: a success, or a failure, whatever it
is, after which the core tries again by its own back-off. A piece of work never lasts for ever:
calls of the store have a deadline (`object_store`). A store that fails is reported by one line
until it works again, whatever the number of partitions.

The limits are those of the node: so many copies and deletions at a time, so many bytes a second. A
copy waits for its turn before it begins, as in Kafka, because an upload that pauses is given up. It
counts with all its bytes when it begins: so one segment may be larger than a second's quota.

All copies together have a bounded memory, by the number that may run. So ten large segments do not
go up at once, but ten small ones do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Protocol

from moldau.broker.tiered.segment_upload import UPLOAD_BYTES
from moldau.deferred import dataclass
from moldau.errors import ConfigError, CorruptLog, MoldauError
from moldau.errors.codes import KafkaError
from moldau.logging.gathering import GatheredWarnings
from moldau.objects.store_errors import StoreError, StoreReason
from moldau.runtime.backoff import Backoff
from moldau.runtime.driver import Driver, R, SupervisedDriver
from moldau.runtime.restarts import RestartPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Coroutine

    from moldau.broker.tiered.metadata_topic import MetadataTopic
    from moldau.broker.tiered.remote_log import RemoteLog
    from moldau.broker.tiered.remote_segment import RemoteEvent, RemoteSegment
    from moldau.broker.tiered.remote_traffic import RemoteTraffic
    from moldau.broker.tiered.segment_upload import SegmentFiles, SegmentUpload
    from moldau.logging import Logger
    from moldau.objects.object_store import ObjectStore
    from moldau.runtime import Runtime

STORE_FAILURES: Final = (StoreError, CorruptLog, ConfigError, OSError)
"""What work with the store may end with, other than success. Anything else is a bug."""
COPY_BYTES_EACH: Final = 5 << 19
"""The memory of all copies is this by the number that may run at once: 25 MiB for Kafka's ten."""
_NS_PER_MS: Final = 1_000_000
_FAILED: Final = "the remote work of a partition failed, and goes on soon"


class RateLimit(Protocol):
    """Bytes a second, measured over windows of time."""

    bytes_per_second: int

    @property
    def window_ms(self) -> int: ...

    def is_exceeded(self, now_ms: int) -> bool: ...

    def record(self, size_bytes: int, now_ms: int) -> None: ...


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """The limits of a node, by Kafka's settings."""

    copies_max: int = 10
    """`remote.log.manager.copier.thread.pool.size`"""
    deletions_max: int = 10
    """`remote.log.manager.expiration.thread.pool.size`"""
    copy_bytes_per_s_max: int = (1 << 63) - 1
    """`remote.log.manager.copy.max.bytes.per.second`"""
    interval_ms: int = 30_000
    """`remote.log.manager.task.interval.ms`"""
    orphan_grace_ms: int = 24 * 3_600_000
    """`remote.storage.orphan.grace.ms`"""
    retry: Backoff = field(default_factory=lambda: Backoff(500, 30_000))
    """`remote.log.manager.task.retry.backoff.ms`, and the settings beside it"""


@dataclass(slots=True)
class WorkCounts:
    """What the node does, beside the traffic of topics, for metrics."""

    throttled_copies: int = 0
    """Copies that waited because the quota was used up."""
    orphans: int = 0
    """Objects without a segment that were removed."""
    copies_since: dict[RemoteSegment, float] = field(default_factory=dict)
    """When each copy began that is under way, by the monotonic clock."""

    def oldest_copy_s(self, now_s: float) -> float:
        """Return how long the oldest copy has been under way; 0 if none is."""
        return max((now_s - since for since in self.copies_since.values()), default=0.0)


class StoreHealth:
    """Reports the failures of a store: the first one, each of another kind, and their end."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._reason: StoreReason | None = None

    def on_failure(self, error: Exception) -> None:
        if not isinstance(error, StoreError):
            self._log.failure("remote work on a segment failed, and is tried again", error)
        elif error.why is not self._reason:
            self._reason = error.why
            self._log.warn(
                "the remote storage fails; segments stay on the local disk until it works",
                why=str(error),
            )

    def on_success(self) -> None:
        if self._reason is not None:
            self._reason = None
            self._log.info("the remote storage works again")


class RemoteWork:
    """Carries out the work of all cores of one node."""

    def __init__(
        self,
        runtime: Runtime,
        topic: MetadataTopic,
        upload: SegmentUpload,
        log: Logger,
        traffic_of: Callable[[str], RemoteTraffic],
        quota: RateLimit | None = None,
    ) -> None:
        """`traffic_of` returns the counters of a topic, `quota` is that of copies."""
        self.runtime: Final = runtime
        self.topic: Final = topic
        self.store: Final[ObjectStore] = upload.store
        self.log: Final = log
        self.limits = WorkLimits()
        self.counts: Final = WorkCounts()
        self.health: Final = StoreHealth(log)
        self.failures: Final = GatheredWarnings(log, lines=1)
        """Reports what is no failure of the store, such as too few file descriptors."""
        self.is_store_open = False
        """Whether the store was found to work, and to be this cluster's."""
        self.is_topic_safe = False
        """Whether the topic of remote segments keeps its records, by its settings."""
        self._upload = upload
        self._traffic_of = traffic_of
        self._running: dict[str, int] = {}
        self._freed = asyncio.Event()
        self._quota = quota
        self._at_quota = asyncio.Lock()

    @property
    def is_open(self) -> bool:
        """Whether the store is open and the topic is safe. Without that nothing is done to a log or
        a segment."""
        return self.is_store_open and self.is_topic_safe

    def configure(self, limits: WorkLimits) -> None:
        """Use other limits, from the next piece of work on."""
        self.limits = limits
        if self._quota is not None:
            self._quota.bytes_per_second = limits.copy_bytes_per_s_max
        self._freed.set()

    def now_ms(self) -> int:
        return self.runtime.clock.wall_ms()

    async def append(self, core: RemoteLog, event: RemoteEvent) -> bool:
        """Append a record of a core. That it was appended is known when it is read back. Return
        whether the core has something to do now: only a failure changes it."""
        try:
            await self.topic.append(event)
        except KafkaError as error:
            self.log.debug("a record of a remote segment is not written yet", why=str(error))
            core.on_write_failed(event, self.now_ms())
        except Exception as error:
            self.health.on_failure(error)
            core.on_write_failed(event, self.now_ms())
        else:
            return False
        return True

    async def copy(
        self, core: RemoteLog, segment: RemoteSegment, files: Callable[[], SegmentFiles | None]
    ) -> bool:
        """Put the objects of a segment. `files` returns its files when its turn comes, or None if
        the log does not have it any more."""
        counts = self.counts
        try:
            await self._copy_quota(segment.size_bytes)
            async with (
                self._turn("copies", lambda: self.limits.copies_max),
                self._turn(
                    "bytes of copies",
                    lambda: COPY_BYTES_EACH * self.limits.copies_max,
                    min(segment.size_bytes, UPLOAD_BYTES),
                ),
            ):
                found = files()
                if found is None:
                    core.on_put_failed(segment.id, self.now_ms())
                    return True
                self._traffic_of(segment.topic).copies += 1
                counts.copies_since[segment] = self.runtime.clock.monotonic()
                custom = await self._upload.upload(segment, found)
        except Exception as error:
            self._traffic_of(segment.topic).failed_copies += 1
            self.health.on_failure(error)
            core.on_put_failed(segment.id, self.now_ms())
        else:
            self._traffic_of(segment.topic).copied_bytes += segment.size_bytes
            self.health.on_success()
            core.on_put(segment.id, custom, self.now_ms())
        finally:
            counts.copies_since.pop(segment, None)
        return True

    async def delete(self, core: RemoteLog, segment: RemoteSegment) -> bool:
        """Remove the objects of a segment."""
        try:
            async with self._turn("deletions", lambda: self.limits.deletions_max):
                self._traffic_of(segment.topic).deletions += 1
                await self._upload.remove(segment)
        except Exception as error:
            self._traffic_of(segment.topic).failed_deletions += 1
            self.health.on_failure(error)
            core.on_delete_failed(segment.id, self.now_ms())
        else:
            self.health.on_success()
            core.on_deleted(segment.id, self.now_ms())
        return True

    @asynccontextmanager
    async def _turn(
        self, kind: str, limit: Callable[[], int], weight: int = 1
    ) -> AsyncIterator[None]:
        """Wait until the weights of all work of this kind are within the limit, which may change.
        One piece is, whatever its weight."""
        while (others := self._running.get(kind, 0)) and others + weight > limit():
            self._freed.clear()
            await self._freed.wait()
        self._running[kind] = self._running.get(kind, 0) + weight
        try:
            yield
        finally:
            self._running[kind] -= weight
            self._freed.set()

    async def _copy_quota(self, size_bytes: int) -> None:
        """Wait until the bytes of earlier copies fit the rate, one copy after the other. The rate
        falls with each window that ends, and the limit may change meanwhile."""
        quota = self._quota
        if quota is None:
            return
        async with self._at_quota:
            now_ms = self.monotonic_ms()
            self.counts.throttled_copies += quota.is_exceeded(now_ms)
            while quota.is_exceeded(now_ms):
                await asyncio.sleep((quota.window_ms - now_ms % quota.window_ms) / 1000)
                now_ms = self.monotonic_ms()
            quota.record(size_bytes, now_ms)

    def monotonic_ms(self) -> int:
        return self.runtime.clock.monotonic_ns() // _NS_PER_MS

    def driver(
        self,
        name: str,
        ready: Callable[[float], R],
        act: Callable[[R], Awaitable[bool]],
        is_over: Callable[[R], bool],
    ) -> SupervisedDriver[R]:
        """Return the driver of the core of one partition; see `Driver`."""

        def report(error: Exception) -> None:
            if isinstance(error, (MoldauError, OSError)):
                now_s = self.runtime.clock.monotonic()
                self.failures.warn(_FAILED, now_s, of=name, why=str(error))
            else:
                self.log.failure(_FAILED, error, of=name)

        driver = Driver(self.runtime, name, ready, act, is_over)
        return SupervisedDriver(driver, self.runtime, RestartPolicy(self.limits.retry), report)


class RunningWork:
    """The pieces of work of one core, which end with it."""

    def __init__(self, work: RemoteWork, name: str, on_end: Callable[[], None]) -> None:
        """`on_end` is called after each piece of work that leaves its core something to do."""
        self._work = work
        self._name = name
        self._on_end = on_end
        self._tasks: set[asyncio.Task[bool]] = set()

    def begin(self, piece: Coroutine[Any, Any, bool]) -> None:
        """Start a piece of work. It returns whether its core has something to do now."""
        task = self._work.runtime.spawn(piece, name=self._name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def append_all(self, core: RemoteLog, events: Iterable[RemoteEvent]) -> None:
        """Append records, each by itself: they are of different segments."""
        for event in events:
            self.begin(self._work.append(core, event))

    def delete_all(self, core: RemoteLog, segments: Iterable[RemoteSegment]) -> None:
        """Remove the objects of segments."""
        for segment in segments:
            self.begin(self._work.delete(core, segment))

    def _ended(self, task: asyncio.Task[bool]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (task.exception() is not None or task.result()):
            self._on_end()

    def cancel(self) -> None:
        """End all pieces of work soon: their core has forgotten them. An upload that went on would
        leave objects that no segment has."""
        for task in self._tasks:
            task.cancel()

    async def aclose(self) -> None:
        """End all pieces of work."""
        tasks = list(self._tasks)
        self.cancel()
        if tasks:
            await asyncio.wait(tasks)
