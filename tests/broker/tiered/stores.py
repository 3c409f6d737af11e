"""Stores that tests use, what each of them must do, and what runs a test on the real runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, TypeVar

import pytest

from moldau.objects.object_store import ObjectStore, StoreLimits
from moldau.objects.obstore_bucket import ObstoreBucket
from moldau.objects.store_address import StoreConfig, parse_address
from moldau.objects.store_errors import StoreError, StoreReason
from moldau.records import Buffer
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from moldau.runtime.real import run
from tests.broker.tiered.s3_servers import BUCKET, REGION

T = TypeVar("T")
MIB: Final = 1 << 20

QUICK: Final = StoreLimits(deadline_s=60, backoff=Backoff(1, 20))
"""For servers that answer: short waits between attempts, and patience with a busy machine."""
IMPATIENT: Final = StoreLimits(attempt_s=0.5, deadline_s=60, backoff=Backoff(1, 20))
"""For servers that do not answer some requests."""


def on_runtime(main: Callable[[Runtime], Coroutine[Any, Any, T]]) -> T:
    """Run `main` on the real runtime until it returns."""
    return run(main, node="tiered-test")


def s3_store(
    runtime: Runtime,
    port: int,
    prefix: str,
    *,
    limits: StoreLimits = QUICK,
    bucket: str = BUCKET,
    region: str = REGION,
) -> ObjectStore:
    """A store on an S3 server of this machine."""
    address = parse_address(f"s3://{bucket}/{prefix}")
    config = StoreConfig(address, f"http://127.0.0.1:{port}", region, path_style=True)
    return ObjectStore(runtime, ObstoreBucket(runtime, config), limits)


def folder_store(runtime: Runtime, folder: object, limits: StoreLimits = QUICK) -> ObjectStore:
    """A store in a folder of this machine."""
    bucket = ObstoreBucket(runtime, StoreConfig(parse_address(f"file://{folder}")))
    return ObjectStore(runtime, bucket, limits)


async def whole(store: ObjectStore) -> None:
    """Put, read, list and delete, small and large."""
    await store.check()
    await store.put("a/one", b"0123456789")
    assert bytes(await store.get_range("a/one", 3, 4)) == b"3456"
    assert bytes(await store.get_range("a/one", 8, 100)) == b"89"
    with pytest.raises(StoreError) as beyond:
        await store.get_range("a/one", 10, 5)
    assert beyond.value.why is StoreReason.BAD_RANGE
    with pytest.raises(StoreError) as taken:
        await store.put("a/one", b"other")
    assert taken.value.why is StoreReason.ALREADY_EXISTS
    assert bytes(await store.get_range("a/one", 0, 10)) == b"0123456789"
    content = bytes(range(256)) * (18 * MIB // 256)
    size = await store.put_parts("a/two", lambda: pieces(content, 3 * MIB), len(content))
    assert size == len(content)
    assert bytes(await store.get_range("a/two", 17 * MIB, MIB)) == content[17 * MIB :]
    with pytest.raises(StoreError) as again:
        await store.put_parts("a/two", lambda: pieces(content, 3 * MIB), len(content))
    assert again.value.why is StoreReason.ALREADY_EXISTS
    listed = [(each.name, each.size_bytes) async for each in store.list("a")]
    assert sorted(listed) == [("a/one", 10), ("a/two", 18 * MIB)]
    for name in ("a/one", "a/two", "a/one"):
        await store.delete(name)
    assert [each async for each in store.list()] == []
    with pytest.raises(StoreError) as gone:
        await store.get_range("a/one", 0, 1)
    assert gone.value.why is StoreReason.NOT_FOUND
    assert store.counts.bytes_written > 18 * MIB


async def pieces(content: bytes, size: int) -> AsyncIterator[Buffer]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def refusal(store: ObjectStore) -> StoreError:
    with pytest.raises(StoreError) as found:
        await store.check()
    assert "\n" not in str(found.value)
    assert store.where in str(found.value)
    assert found.value.context["attempts"] == 1
    return found.value
