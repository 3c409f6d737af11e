"""Splits bytes into lines, with the position after each, and joins lines to whole CSV records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from moldau.deferred import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive lines. They are only split into single lines on request: most are passed on."""

    raw: Sequence[bytes]
    """The lines without the newlines that end them, but with a `\\r` before the newline."""
    start: int
    """The position of the first line, in bytes."""
    inode: int | None = None
    is_ended: bool = True
    """Whether the last line has a newline."""

    def lines(self) -> list[bytes]:
        """Return the lines without a final `\\r`: `\\r\\n` ends a line as `\\n` does."""
        return [line.removesuffix(b"\r") for line in self.raw]

    def offsets(self) -> list[dict[str, Any]]:
        """Return a source offset for each line: the position of the next line, and the file."""
        ends = list(accumulate((len(line) + 1 for line in self.raw), initial=self.start))[1:]
        if not self.is_ended:
            ends[-1] -= 1
        return [self._offset(end) for end in ends]

    def last_offset(self) -> dict[str, Any]:
        """Return the source offset of the last line."""
        return self._offset(self.end)

    def _offset(self, position: int) -> dict[str, Any]:
        if self.inode is None:
            return {"position": position}
        return {"position": position, "inode": self.inode}

    @property
    def end(self) -> int:
        """The position after the last line."""
        newlines = len(self.raw) if self.is_ended else len(self.raw) - 1
        return self.start + sum(map(len, self.raw)) + newlines

    def pieces(self, count: int) -> Iterator[Block]:
        """Yield the same lines in blocks of at most `count`."""
        start = self.start
        for first in range(0, len(self.raw), count):
            raw = self.raw[first : first + count]
            is_ended = self.is_ended or first + count < len(self.raw)
            piece = Block(raw, start, self.inode, is_ended)
            yield piece
            start = piece.end


class LineSplitter:
    """Splits bytes into lines. `position` is the end of the last returned line, in bytes.

    A line without a newline is kept back, because it may still grow. `rest` returns it at the end
    of a file that cannot grow.
    """

    def __init__(self, position: int = 0, inode: int | None = None) -> None:
        self.position = position
        self._inode = inode
        self._tail = b""

    def feed(self, data: bytes) -> Block:
        """Return the complete lines."""
        *raw, self._tail = (self._tail + data).split(b"\n")
        return self._given(Block(raw, self.position, self._inode))

    def rest(self) -> Block:
        """Return the last line of a complete file, if it has no newline."""
        tail, self._tail = self._tail, b""
        return self._given(Block([tail] if tail else [], self.position, self._inode, not tail))

    def _given(self, block: Block) -> Block:
        self.position = block.end
        return block


class QuoteJoiner:
    """Joins lines of CSV while a quote is open, because a field contains a newline."""

    def __init__(self, quote: bytes = b'"') -> None:
        self._quote = quote
        self._open: list[bytes] = []

    def feed(self, line: bytes) -> bytes | None:
        """Return a whole record, or None while a quote is open."""
        self._open.append(line)
        if sum(part.count(self._quote) for part in self._open) % 2:
            return None
        whole, self._open = b"\n".join(self._open), []
        return whole
