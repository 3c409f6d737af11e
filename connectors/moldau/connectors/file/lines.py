"""Splitting bytes into lines, with the position after each, and whole CSV records out of lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that follow one another. Nothing is done here for a single line before it is asked for:
    most are only handed on.
    """

    raw: Sequence[bytes]
    """Without the newlines that end them, but with a `\\r` before."""
    start: int
    """Where the first of them begins, in bytes."""
    inode: int | None = None
    is_ended: bool = True
    """Whether the last one has a newline."""

    def lines(self) -> list[bytes]:
        """`\\r\\n` ends a line as `\\n` does."""
        return [line.removesuffix(b"\r") for line in self.raw]

    def offsets(self) -> list[dict[str, Any]]:
        """A source offset for each line: where the next one begins, and in which file."""
        ends = list(accumulate((len(line) + 1 for line in self.raw), initial=self.start))[1:]
        if not self.is_ended:
            ends[-1] -= 1
        return [self._offset(end) for end in ends]

    def last_offset(self) -> dict[str, Any]:
        """That of the last line."""
        return self._offset(self.end)

    def _offset(self, position: int) -> dict[str, Any]:
        if self.inode is None:
            return {"position": position}
        return {"position": position, "inode": self.inode}

    @property
    def end(self) -> int:
        """Behind the last line."""
        newlines = len(self.raw) if self.is_ended else len(self.raw) - 1
        return self.start + sum(map(len, self.raw)) + newlines

    def pieces(self, count: int) -> Iterator[Block]:
        """The same lines in blocks of so many at most."""
        start = self.start
        for first in range(0, len(self.raw), count):
            raw = self.raw[first : first + count]
            is_ended = self.is_ended or first + count < len(self.raw)
            piece = Block(raw, start, self.inode, is_ended)
            yield piece
            start = piece.end


class LineSplitter:
    """Bytes in, lines out. `position` is the end of the last line given out, in bytes.

    A line without its newline waits: it may still be growing. `rest` gives it at the end of a file
    that cannot grow.
    """

    def __init__(self, position: int = 0, inode: int | None = None) -> None:
        self.position = position
        self._inode = inode
        self._tail = b""

    def feed(self, data: bytes) -> Block:
        """The complete lines."""
        *raw, self._tail = (self._tail + data).split(b"\n")
        return self._given(Block(raw, self.position, self._inode))

    def rest(self) -> Block:
        """The last line of a complete file, if it has no newline."""
        tail, self._tail = self._tail, b""
        return self._given(Block([tail] if tail else [], self.position, self._inode, not tail))

    def _given(self, block: Block) -> Block:
        self.position = block.end
        return block


class QuoteJoiner:
    """Joins lines of CSV whose quotes are open, because a field has a newline in it."""

    def __init__(self, quote: bytes = b'"') -> None:
        self._quote = quote
        self._open: list[bytes] = []

    def feed(self, line: bytes) -> bytes | None:
        """A whole record, or None while a quote is open."""
        self._open.append(line)
        if sum(part.count(self._quote) for part in self._open) % 2:
            return None
        whole, self._open = b"\n".join(self._open), []
        return whole
