"""One answer to a request whose parts are answered one by one, at any time and in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class PartialAnswers(Generic[T]):
    """Collects the answers to the parts of one request. Calls `then` with all of them, in order."""

    def __init__(self, count: int, then: Callable[[Sequence[T]], None]) -> None:
        self._found: dict[int, T] = {}
        self._count = count
        self._then = then
        self._end()

    def put(self, number: int, found: T) -> None:
        """Store the answer to part `number`."""
        assert number not in self._found
        self._found[number] = found
        self._end()

    def _end(self) -> None:
        if len(self._found) == self._count:
            self._then([self._found[number] for number in range(self._count)])
