"""Blocking work that waits for brokers most of the time: some of it at once, on threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from moldau.runtime.threads import here

_THREADS: Final = 8
T = TypeVar("T")


def together(works: Sequence[Callable[[], T]], name: str) -> list[T]:
    """Return what each piece of work returns, in their order. At most 8 run at a time. If some fail
    none begins after that, those that have begun end, and the error of the first is raised."""
    threads = here()
    left = deque(enumerate(works))
    found: dict[int, T] = {}
    errors: dict[int, Exception] = {}
    ended = threads.queue()

    def run() -> None:
        try:
            while not errors:
                try:
                    at, work = left.popleft()
                except IndexError:
                    break
                try:
                    found[at] = work()
                except Exception as error:
                    errors[at] = error
        finally:
            ended.put(True)

    count = min(_THREADS, len(works))
    for number in range(count):
        threads.start(run, f"{name}-{number}")
    try:
        for _ in range(count):
            ended.get()
    finally:
        left.clear()  # after Ctrl-C no other one begins
    if errors:
        raise errors[min(errors)]
    return [found[at] for at in range(len(works))]
