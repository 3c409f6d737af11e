"""A copy inside a store counts when it is there, also if the store answers before (Azure)."""

from __future__ import annotations

from typing import cast

import pytest

from moldau.objects.object_store import Bucket, ObjectStore, StoreLimits
from moldau.objects.store_errors import StoreError, StoreReason, store_error
from moldau.runtime import Runtime
from moldau.runtime.backoff import Backoff
from tests.broker.one_node import simulate

CONTENT = b"a segment with its end"
LIMITS = StoreLimits(attempt_s=60.0, deadline_s=120.0, backoff=Backoff(100, 5_000))


class PendingBucket:
    """A copy is `first` until its time, and then `last`. None: there is no object."""

    where = "az://container"

    def __init__(self, runtime: Runtime, after_s: float, first: bytes | None, last: bytes) -> None:
        self._clock = runtime.clock
        self._due_s = self._clock.monotonic() + after_s
        self._first, self._last = first, last

    async def copy(self, path: str, name: str) -> None:
        """Answer as if all were done."""

    def _content(self) -> bytes:
        found = self._last if self._clock.monotonic() >= self._due_s else self._first
        if found is None:
            raise store_error(StoreReason.NOT_FOUND, "get", "name")
        return found

    async def size_of(self, name: str) -> int:
        return len(self._content())

    async def get_range(self, name: str, start: int, size: int) -> bytes:
        return self._content()[start : start + size]


def copied_after_s(after_s: float, first: bytes | None, last: bytes = CONTENT) -> float:
    """Return how long a copy takes."""

    async def main(runtime: Runtime) -> float:
        bucket = cast(Bucket, PendingBucket(runtime, after_s, first, last))
        store = ObjectStore(runtime, bucket, LIMITS)
        begun = runtime.clock.monotonic()
        await store.copy("from", "to", len(CONTENT), CONTENT[-4:])
        return runtime.clock.monotonic() - begun

    return simulate(main)


def test_a_copy_that_is_there_is_not_waited_for() -> None:
    assert copied_after_s(0.0, None) < 0.1


@pytest.mark.parametrize(
    "first",
    [None, b"", CONTENT[:-3], b"a segment with its ...", bytes(len(CONTENT))],
    ids=["missing", "empty", "short", "another end", "zeros"],
)
def test_a_copy_is_waited_for_until_it_is_whole(first: bytes | None) -> None:
    assert 30.0 <= copied_after_s(30.0, first) < 36.0


def test_a_copy_that_is_not_finished_in_time_is_an_error_that_says_so() -> None:
    async def main(runtime: Runtime) -> tuple[StoreError, float]:
        bucket = cast(Bucket, PendingBucket(runtime, 1e6, b"", CONTENT))
        store = ObjectStore(runtime, bucket, LIMITS)
        begun = runtime.clock.monotonic()
        with pytest.raises(StoreError) as found:
            await store.copy("from", "to", len(CONTENT), CONTENT[-4:])
        return found.value, runtime.clock.monotonic() - begun

    error, took_s = simulate(main)

    assert error.why is StoreReason.UNFINISHED
    assert str(error) == (
        "copy az://container/to: the store accepted it, and has not finished it in time"
    )
    assert 50.0 < took_s <= 60.0
