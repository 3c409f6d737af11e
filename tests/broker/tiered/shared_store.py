"""A store that the nodes of a simulated world share: objects in memory, with a cloud's delays."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.broker.tiered.segment_objects import parse_object_name
from moldau.objects.object_store import StoredObject
from moldau.objects.store_errors import StoreReason, store_error
from tests.broker.network.virtual_pause import after

if TYPE_CHECKING:
    from moldau.objects.store_address import StoreConfig
    from moldau.records import Buffer
    from moldau.runtime import Runtime

WHERE: Final = "file:///shared"
_DELAYS_S: Final = (0.002, 0.01, 0.03)
_LATE_S: Final = (0.1, 3.0, 20.0)


class SharedStore:
    """The objects, and what each node did with them."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.puts: list[tuple[str, str]] = []
        """The node and the name of each put of a segment's object that began, in their order."""
        self.reads: Counter[str] = Counter()
        """How many ranges of segments each node has read."""
        self.put_s = 0.0
        """How long a put takes beyond the usual delay."""
        self.badness = 0.0
        """How likely a request fails, with or without an effect."""
        self.lateness = 0.0
        """How likely a put or a deletion fails, and has its effect a while later."""
        self.on_the_way: list[tuple[float, Callable[[], object]]] = []
        """What is late, and when it arrives: even if its node is gone by then."""

    def open(self, runtime: Runtime, config: StoreConfig) -> SharedBucket:
        """Takes the place of `ObstoreBucket`."""
        return SharedBucket(self, runtime)

    def land(self, now_s: float) -> None:
        """Let arrive what is late and due."""
        due = [each for each in self.on_the_way if each[0] <= now_s]
        self.on_the_way = [each for each in self.on_the_way if each[0] > now_s]
        for _, action in due:
            action()

    def segment_objects(self) -> set[str]:
        """The objects of segments."""
        return {name for name in self.objects if parse_object_name(name) is not None}

    def copies(self) -> Counter[int]:
        """How often a copy of the segment was begun that begins at an offset."""
        named = (name.rpartition("/")[2] for _, name in self.puts if name.endswith(".log"))
        return Counter(int(name[:20]) for name in named)


class SharedBucket:
    """The store as one node has it. Satisfies `object_store.Bucket`."""

    where = WHERE

    def __init__(self, store: SharedStore, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime

    async def put(self, name: str, data: Buffer) -> None:
        content = bytes(data)
        await self._begin_put(name)
        self._be_late(name, partial(self._store.objects.setdefault, name, content))
        if name in self._store.objects:
            raise store_error(StoreReason.ALREADY_EXISTS, "put", name)
        self._store.objects[name] = content
        self._fail_sometimes(name)

    async def put_parts(self, name: str, parts: AsyncIterator[Buffer]) -> None:
        content = b"".join([bytes(each) async for each in parts])
        await self._begin_put(name)
        self._be_late(name, partial(self._store.objects.__setitem__, name, content))
        self._store.objects[name] = content
        self._fail_sometimes(name)

    async def get_range(self, name: str, start: int, size: int) -> Buffer:
        await self._delay()
        if parse_object_name(name) is not None:
            self._store.reads[self._runtime.node] += 1
        content = self._content(name)
        if start >= len(content):
            raise store_error(StoreReason.BAD_RANGE, "get", name)
        return content[start : start + size]

    async def size_of(self, name: str) -> int:
        await self._delay()
        return len(self._content(name))

    async def copy(self, path: str, name: str) -> None:
        raise store_error(StoreReason.REFUSED, "copy", name)

    async def delete(self, name: str) -> None:
        await self._delay()
        self._be_late(name, partial(self._store.objects.pop, name, None))
        self._content(name)
        del self._store.objects[name]
        self._fail_sometimes(name)

    async def list(self, prefix: str, after: str | None) -> Sequence[StoredObject]:
        await self._delay()
        return [
            StoredObject(name, len(content), 0)
            for name, content in sorted(self._store.objects.items())
            if name.startswith(f"{prefix}/" if prefix else "") and name > (after or "")
        ]

    async def _begin_put(self, name: str) -> None:
        is_of_segment = parse_object_name(name) is not None
        if is_of_segment:
            self._store.puts.append((self._runtime.node, name))
        await self._delay(self._store.put_s if is_of_segment else 0.0)

    async def _delay(self, more_s: float = 0.0) -> None:
        await after(self._runtime.random.choice(_DELAYS_S) + more_s)
        self._store.land(self._runtime.clock.monotonic())
        self._fail_sometimes("")

    def _fail_sometimes(self, name: str) -> None:
        if self._runtime.random.random() < self._store.badness:
            raise store_error(StoreReason.SERVER_ERROR, "request", name)

    def _be_late(self, name: str, action: Callable[[], object]) -> None:
        random = self._runtime.random
        if random.random() < self._store.lateness:
            due_s = self._runtime.clock.monotonic() + random.choice(_LATE_S)
            self._store.on_the_way.append((due_s, action))
            raise store_error(StoreReason.SERVER_ERROR, "request", name)

    def _content(self, name: str) -> bytes:
        content = self._store.objects.get(name)
        if content is None:
            raise store_error(StoreReason.NOT_FOUND, "get", name)
        return content
