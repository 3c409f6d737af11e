"""A savepoint in an object store: Amazon S3 and what speaks it, Google Cloud Storage, Azure.

Each file is an object, written once. A call runs on an event loop of its own, since taking and
restoring are ordinary code that waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from moldau.objects.object_store import ObjectStore
from moldau.objects.store_address import StoreConfig, parse_address

if TYPE_CHECKING:
    from moldau.runtime import Runtime

T = TypeVar("T")
PART_BYTES: Final = 8 * 1024 * 1024


class BucketPlace:
    """The objects below a prefix of a bucket."""

    def __init__(self, address: str) -> None:
        """Raise ConfigError for an address that is none."""
        self._config = StoreConfig(parse_address(address, "the place of the savepoint"))
        self.name = str(self._config.address)

    def names(self) -> list[str]:
        async def listed(store: ObjectStore) -> list[str]:
            return sorted([each.name async for each in store.list()])

        return self._run(listed)

    def read(self, name: str) -> bytes:
        async def fetched(store: ObjectStore) -> bytes:
            size = await store.size_of(name)
            starts = range(0, size, PART_BYTES)
            found = [await store.get_range(name, at, min(PART_BYTES, size - at)) for at in starts]
            return b"".join(found)

        return self._run(fetched)

    def write(self, name: str, data: bytes) -> None:
        async def parts() -> AsyncIterator[memoryview]:
            view = memoryview(data)
            for start in range(0, len(view), PART_BYTES):
                yield view[start : start + PART_BYTES]

        async def stored(store: ObjectStore) -> None:
            if len(data) <= PART_BYTES:
                await store.put(name, data)
            else:
                await store.put_parts(name, parts, len(data))

        self._run(stored)

    def _run(self, call: Callable[[ObjectStore], Awaitable[T]]) -> T:
        """Return what the call returns. Raise ConfigError if the library is not installed, and
        StoreError."""
        from moldau.objects.obstore_bucket import ObstoreBucket
        from moldau.runtime.real import run

        async def main(runtime: Runtime) -> T:
            return await call(ObjectStore(runtime, ObstoreBucket(runtime, self._config)))

        return run(main)
