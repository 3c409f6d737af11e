"""Splitting bytes into lines, with the position after each, and whole CSV records out of lines."""

from __future__ import annotations

from collections.abc import Iterator


class LineSplitter:
    """Bytes in, lines out. `position` is the end of the last line given out, in bytes.

    A line without its newline waits: it may still be growing. `rest` gives it at the end of a file
    that cannot grow. `\\r\\n` ends a line as `\\n` does.
    """

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self.start = position
        """Where the line began that was given out last."""
        self._tail = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        """The complete lines, each with the position behind it."""
        *lines, self._tail = (self._tail + data).split(b"\n")
        for line in lines:
            self.start = self.position
            self.position += len(line) + 1
            yield line.removesuffix(b"\r"), self.position

    def rest(self) -> Iterator[tuple[bytes, int]]:
        """The last line of a complete file, if it has no newline."""
        tail, self._tail = self._tail, b""
        if tail:
            self.start = self.position
            self.position += len(tail)
            yield tail.removesuffix(b"\r"), self.position


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
