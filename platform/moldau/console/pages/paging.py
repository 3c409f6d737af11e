"""Pages of long lists. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from moldau.deferred import dataclass

T = TypeVar("T")
ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class RowPage(Generic[T]):
    """A part of a list, and where it lies in the whole. Pages count from 1."""

    rows: Sequence[T]
    number: int
    count: int
    total: int

    @property
    def first(self) -> int:
        """The place of the first row in the whole, from 1; 0 if there are no rows."""
        return (self.number - 1) * ROWS + 1 if self.total else 0

    @property
    def last(self) -> int:
        """The place of the last row."""
        return min(self.number * ROWS, self.total)


def paged(rows: Sequence[T], number: str | None) -> RowPage[T]:
    """Return the page of this number. What is no number, or too large, is the nearest page."""
    count = max(1, -(-len(rows) // ROWS))
    wanted = int(number) if number and number.isdecimal() and len(number) < 9 else 1
    at = min(max(1, wanted), count)
    return RowPage(rows[(at - 1) * ROWS : at * ROWS], at, count, len(rows))
