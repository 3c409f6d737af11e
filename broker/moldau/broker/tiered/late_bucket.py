"""A bucket that is opened by its first request, and again by each one until that succeeds.

A store whose address cannot be opened yet (a folder that is not mounted) is one that fails, and not
a reason for a node not to start.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.objects.object_store import Bucket, StoredObject
    from moldau.records import Buffer


class LateBucket:
    """Satisfies `object_store.Bucket`."""

    def __init__(self, where: str, open: Callable[[], Bucket]) -> None:
        """`open` raises StoreError if the bucket cannot be opened."""
        self._where = where
        self._open = open
        self._opened: Bucket | None = None

    @property
    def where(self) -> str:
        return self._where

    @property
    def _bucket(self) -> Bucket:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    async def put(self, name: str, data: Buffer) -> None:
        await self._bucket.put(name, data)

    async def put_parts(self, name: str, parts: AsyncIterator[Buffer]) -> None:
        await self._bucket.put_parts(name, parts)

    async def get_range(self, name: str, start: int, size: int) -> Buffer:
        return await self._bucket.get_range(name, start, size)

    async def size_of(self, name: str) -> int:
        return await self._bucket.size_of(name)

    async def copy(self, path: str, name: str) -> None:
        await self._bucket.copy(path, name)

    async def delete(self, name: str) -> None:
        await self._bucket.delete(name)

    async def list(self, prefix: str, after: str | None) -> Sequence[StoredObject]:
        return await self._bucket.list(prefix, after)
