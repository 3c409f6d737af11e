"""Measurements of memory count the work, and not its neighbours."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.records.memory import peak, peak_stays_below, refusal_stays_below, rest_stays_below

MIB = 1 << 20


@pytest.fixture
def neighbour() -> Iterator[None]:
    """Another thread, which allocates 32 MiB whenever it can."""
    ended = threading.Event()

    def allocate() -> None:
        while not ended.is_set():
            bytearray(32 * MIB)

    thread = threading.Thread(target=allocate)
    thread.start()
    yield
    ended.set()
    thread.join()


def work() -> bytearray:
    """Pure Python for some turns of a thread."""
    for _ in range(300_000):
        pass
    return bytearray(MIB)


@pytest.mark.usefixtures("neighbour")
def test_another_thread_does_not_count() -> None:
    peak_stays_below(2 * MIB, work)
    rest_stays_below(2 * MIB, work)
    assert MIB <= peak(work) < 2 * MIB


def test_too_much_is_refused() -> None:
    for measure in (peak_stays_below, rest_stays_below):
        with pytest.raises(AssertionError):
            measure(MIB, work)


def test_a_refusal_is_measured_too() -> None:
    def refuse() -> None:
        work()
        raise ValueError("too long")

    refusal_stays_below(2 * MIB, ValueError, "too long", refuse)
    with pytest.raises(AssertionError):
        refusal_stays_below(MIB, ValueError, "too long", refuse)
    with pytest.raises(AssertionError, match="DID NOT RAISE"):
        refusal_stays_below(2 * MIB, ValueError, "too long", work)


def test_what_goes_again_is_in_the_peak_alone() -> None:
    def passing() -> None:
        work()

    rest_stays_below(MIB, passing)
    with pytest.raises(AssertionError):
        peak_stays_below(MIB, passing)
