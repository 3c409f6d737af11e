"""The one way to a bucket: each call has a deadline, retries, and counts of what it did.

Invariants:
- A call ends, with its result or a StoreError, at its deadline at the latest. An attempt that gets
  no answer is given up earlier, and made again.
- `put` creates and never replaces. After an attempt with an unknown outcome, an object of that
  name is compared with what was to be stored: if it is equal, the attempt had succeeded and only
  its answer was lost.
- `put_parts` holds a few parts in memory, whatever the size. A store has no "create only" for such
  an upload, so the name is looked up before it; names are never used again, so that is enough.
- A failed put whose `is_outcome_known` is False may have stored the object.

Waits and randomness are the runtime's; the bucket makes each request once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from moldau.deferred import dataclass
from moldau.errors import without_frames
from moldau.objects.store_errors import (
    UNKNOWN_OUTCOMES,
    StoreError,
    StoreReason,
    store_error,
)
from moldau.records import Buffer
from moldau.runtime.backoff import Backoff
from moldau.runtime.timeouts import Timeout, timeout

if TYPE_CHECKING:
    from moldau.runtime import Runtime

T = TypeVar("T")

_TAIL_BYTES: Final = 64 << 10
_CHECK_NAME: Final = "moldau-check"


class Operation(Enum):
    """A call of the store, for counts and texts."""

    PUT = "put"
    GET = "get"
    DELETE = "delete"
    LIST = "list"
    COPY = "copy"


class StoredObject(NamedTuple):
    """An object in a list. Its name is relative to the store's prefix."""

    name: str
    size_bytes: int
    modified_ms: int


class Bucket(Protocol):
    """The requests of a store, each made once. Failures are StoreErrors."""

    @property
    def where(self) -> str: ...

    async def put(self, name: str, data: Buffer) -> None: ...

    async def put_parts(self, name: str, parts: AsyncIterator[Buffer]) -> None: ...

    async def get_range(self, name: str, start: int, size: int) -> Buffer: ...

    async def size_of(self, name: str) -> int: ...

    async def copy(self, path: str, name: str) -> None: ...

    async def delete(self, name: str) -> None: ...

    async def list(self, prefix: str, after: str | None) -> Sequence[StoredObject]: ...


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """How long calls may take, and how they are repeated."""

    attempt_s: float = 30.0
    """An attempt without an answer, or an upload without progress, is given up after this."""
    deadline_s: float = 120.0
    """The whole call, with its attempts and waits. An upload has it on top of its own time."""
    upload_bytes_per_s_min: int = 1 << 20
    """An upload that is slower than this on average fails."""
    backoff: Backoff = field(default_factory=lambda: Backoff(100, 10_000))


@dataclass(slots=True)
class StoreCounts:
    """What a store has done since the start, for metrics."""

    calls: Counter[Operation] = field(default_factory=Counter)
    failures: Counter[tuple[Operation, StoreReason]] = field(default_factory=Counter)
    """Failed attempts, also of calls that succeeded later."""
    failed_calls: Counter[Operation] = field(default_factory=Counter)
    bytes_read: int = 0
    bytes_written: int = 0


class ObjectStore:
    """The objects below the prefix of a bucket."""

    def __init__(self, runtime: Runtime, bucket: Bucket, limits: StoreLimits | None = None) -> None:
        self._runtime = runtime
        self._bucket = bucket
        self._limits = limits or StoreLimits()
        self.counts = StoreCounts()

    @property
    def where(self) -> str:
        """The address of the store, for texts."""
        return self._bucket.where

    def with_limits(self, limits: StoreLimits) -> ObjectStore:
        """Return the same store with other limits; both count together."""
        other = ObjectStore(self._runtime, self._bucket, limits)
        other.counts = self.counts
        return other

    async def put(self, name: str, data: Buffer) -> None:
        """Create a small object: it is in memory as a whole. Return once it is stored."""
        attempts = 0

        async def attempt(_: Timeout) -> None:
            nonlocal attempts
            attempts += 1
            try:
                await self._bucket.put(name, data)
            except StoreError as error:
                is_taken = error.why is StoreReason.ALREADY_EXISTS
                if not (is_taken and attempts > 1 and await self._is_stored(name, len(data), data)):
                    raise

        await self._repeat(Operation.PUT, name, attempt, self._limits.deadline_s)
        self.counts.bytes_written += len(data)

    async def put_parts(
        self, name: str, parts: Callable[[], AsyncIterator[Buffer]], size_hint: int
    ) -> int:
        """Create a large object from parts and return its size. Each attempt calls `parts` again,
        which must yield the same bytes. `size_hint` bounds the time."""
        last: _Upload | None = None
        await self._refuse_taken(name)

        async def attempt(limit: Timeout) -> int:
            nonlocal last
            if (
                last is not None
                and last.is_complete
                and await self._is_stored(name, last.size_bytes, last.tail)
            ):
                return last.size_bytes
            last = upload = _Upload(self._runtime, limit, self._limits.attempt_s)
            try:
                await self._bucket.put_parts(name, upload.watched(parts()))
            finally:
                upload.limit = None
            return upload.size_bytes

        deadline_s = self._limits.deadline_s + size_hint / self._limits.upload_bytes_per_s_min
        size = await self._repeat(Operation.PUT, name, attempt, deadline_s)
        self.counts.bytes_written += size
        return size

    async def get_range(self, name: str, start: int, size: int) -> Buffer:
        """Return `size` bytes from `start`; fewer if the object ends before, BAD_RANGE if it has
        none of them."""
        assert size > 0

        async def attempt(_: Timeout) -> Buffer:
            return await self._bucket.get_range(name, start, size)

        found = await self._repeat(Operation.GET, name, attempt, self._limits.deadline_s)
        self.counts.bytes_read += len(found)
        return found

    async def size_of(self, name: str) -> int:
        """Return the size of an object. Raise NOT_FOUND if there is none."""

        async def attempt(_: Timeout) -> int:
            return await self._bucket.size_of(name)

        return await self._repeat(Operation.GET, name, attempt, self._limits.deadline_s)

    async def copy(self, path: str, name: str, size: int, tail: Buffer) -> None:
        """Let the store copy an object of the same bucket, without its bytes on the way here.
        `path` is from the root of the bucket. An object of that name is replaced: the caller looks
        before. One attempt may take as long as the whole call, for a large object is one request.

        Return when the copy is there, with the size and the last bytes of the object: Azure may
        answer "pending" before that, which the library takes for success. Raise UNFINISHED if it
        is not there after the time of an attempt. An ETag says nothing: stores give copies another.
        """
        clock, limits = self._runtime.clock, self._limits

        async def attempt(_: Timeout) -> None:
            await self._bucket.copy(path, name)

        await self._repeat(Operation.COPY, name, attempt, limits.deadline_s)
        end, looks = clock.monotonic() + limits.attempt_s, 0
        while not await self.is_stored(name, size, tail):
            looks += 1
            wait_s = limits.backoff.wait_s(looks, self._runtime.random)
            if clock.monotonic() + wait_s >= end:
                raise store_error(StoreReason.UNFINISHED, "copy", f"{self.where}/{name}")
            await asyncio.sleep(wait_s)

    async def is_stored(self, name: str, size: int, tail: Buffer) -> bool:
        """Whether there is an object of this size that ends with these bytes."""

        async def attempt(_: Timeout) -> bool:
            return await self._is_stored(name, size, tail)

        return await self._repeat(Operation.GET, name, attempt, self._limits.deadline_s)

    async def delete(self, name: str) -> None:
        """Remove an object. It may be gone already."""

        async def attempt(_: Timeout) -> None:
            try:
                await self._bucket.delete(name)
            except StoreError as error:
                if error.why is not StoreReason.NOT_FOUND:
                    raise

        await self._repeat(Operation.DELETE, name, attempt, self._limits.deadline_s)

    async def list(self, prefix: str = "") -> AsyncIterator[StoredObject]:
        """Iterate over the objects below a folder, page by page."""
        after: str | None = None

        async def attempt(_: Timeout) -> Sequence[StoredObject]:
            return await self._bucket.list(prefix, after)

        while page := await self._repeat(Operation.LIST, prefix, attempt, self._limits.deadline_s):
            for each in page:
                yield each
            after = max(each.name for each in page)

    async def check(self) -> None:
        """Raise StoreError unless objects can be put, read, listed and deleted here. For the start
        of a node: the error is one line that says what to do."""
        await self.now_ms()

    async def now_ms(self) -> int:
        """Return the time by the clock of the store, which gives objects theirs: that of an object
        that is put for it. Raise StoreError as `check` does."""
        name = f"{_CHECK_NAME}/{self._runtime.random.randbytes(8).hex()}"
        content = name.encode("ascii")
        await self.put(name, content)
        found = bytes(await self.get_range(name, 0, len(content)))
        times = {each.name: each.modified_ms async for each in self.list(_CHECK_NAME)}
        await self.delete(name)
        if found != content or name not in times:
            raise store_error(
                StoreReason.REFUSED,
                "check",
                self.where,
                "an object that was put is not there: the store must read its own writes",
            )
        return times[name]

    async def _refuse_taken(self, name: str) -> None:
        async def attempt(_: Timeout) -> bool:
            try:
                await self._bucket.size_of(name)
            except StoreError as error:
                if error.why is StoreReason.NOT_FOUND:
                    return False
                raise
            return True

        if await self._repeat(Operation.GET, name, attempt, self._limits.deadline_s):
            raise store_error(StoreReason.ALREADY_EXISTS, "put", f"{self.where}/{name}")

    async def _is_stored(self, name: str, size: int, tail: Buffer) -> bool:
        """Whether an object has this size and ends with these bytes."""
        try:
            if await self._bucket.size_of(name) != size:
                return False
            if not size:
                return True
            found = await self._bucket.get_range(name, size - len(tail), len(tail))
        except StoreError as error:
            if error.why in (StoreReason.NOT_FOUND, StoreReason.BAD_RANGE):
                return False
            raise
        return bytes(found) == bytes(tail)

    async def _repeat(
        self,
        operation: Operation,
        name: str,
        attempt: Callable[[Timeout], Awaitable[T]],
        deadline_s: float,
    ) -> T:
        """Make attempts until one succeeds, the reason is final, or the time is over."""
        clock, limits, counts = self._runtime.clock, self._limits, self.counts
        end = clock.monotonic() + deadline_s
        failures, is_known = 0, True
        counts.calls[operation] += 1
        while True:
            left = end - clock.monotonic()
            try:
                async with timeout(left), timeout(min(left, limits.attempt_s)) as limit:
                    return await attempt(limit)
            except TimeoutError:
                error = store_error(StoreReason.TIMEOUT, operation.value, f"{self.where}/{name}")
            except StoreError as failure:
                error = without_frames(failure)
            failures += 1
            counts.failures[operation, error.why] += 1
            is_known = is_known and error.why not in UNKNOWN_OUTCOMES
            wait_s = limits.backoff.wait_s(failures, self._runtime.random)
            if not error.retriable or clock.monotonic() + wait_s >= end:
                counts.failed_calls[operation] += 1
                error.is_outcome_known = is_known
                error.context["attempts"] = failures
                raise error
            await asyncio.sleep(wait_s)


class _Upload:
    """The bytes that went into one attempt of an upload: their number, and the last ones."""

    def __init__(self, runtime: Runtime, limit: Timeout, patience_s: float) -> None:
        self._clock = runtime.clock
        self._patience_s = patience_s
        self.limit: Timeout | None = limit
        """The limit of the attempt, until it ends: the library may ask for a part after that."""
        self.size_bytes = 0
        self.tail = b""
        self.is_complete = False

    async def watched(self, parts: AsyncIterator[Buffer]) -> AsyncIterator[Buffer]:
        """Yield the parts. Each one that the store takes is progress, which moves the limit."""
        async for part in parts:
            self.size_bytes += len(part)
            if len(part) >= _TAIL_BYTES:
                self.tail = bytes(memoryview(part)[-_TAIL_BYTES:])
            else:
                self.tail = (self.tail + bytes(part))[-_TAIL_BYTES:]
            yield part
            del part  # the store has it; the next one is made meanwhile
            if self.limit is None:
                return
            self.limit.reschedule(self._clock.monotonic() + self._patience_s)
        self.is_complete = True
