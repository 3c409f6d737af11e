"""The text checkpoints: a version, a count, and a line of words for each entry.

    0
    2
    orders 0 1500
    orders 1 900

Invariants: a checkpoint is replaced as a whole, and is durable when `write_...` returns. A file
that is not a valid checkpoint raises CorruptLog, and the caller decides how to continue without it.

The count detects a file that was cut at the end of a line. There is no checksum.

An empty file: Kafka makes one for each kind of checkpoint at start-up, before there are entries.
For offsets, an empty file reads as no entries. The broker replaces a file only when the new one is
durable, so it never leaves an empty one, and an empty file says no less than a missing one. For
pairs, an empty file is rejected: a log with records has epochs, so the caller takes them from the
log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moldau.broker.log.names import TopicPartition
from moldau.deferred import deferred_pattern
from moldau.errors import CorruptLog
from moldau.runtime.files import Files

VERSION: Final = "0"
_INTEGER: Final = deferred_pattern(r"-?\d{1,19}")


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """Return the offset of each partition. The result is empty if the file is missing or empty."""
    found: dict[TopicPartition, int] = {}
    if files.exists(path) and not files.stat(path).size_bytes:
        return found
    for line, (topic, partition, offset) in _entries(files, path, 3):
        if int(_number(path, line, partition)) < 0:
            raise CorruptLog("checkpoint names no partition", path=path, line=line)
        found[TopicPartition(topic, int(partition))] = _number(path, line, offset)
    return found


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the offsets of all partitions."""
    files.write_text_atomic(path, offsets_text(offsets))


def offsets_text(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the text of a checkpoint with these offsets."""
    return _text(f"{each.topic} {each.partition} {offsets[each]}" for each in sorted(offsets))


def read_pairs(files: Files, path: str) -> list[tuple[int, int]]:
    """Return pairs of numbers, as (leader epoch, start offset). The result is empty if the file is
    missing."""
    return [
        (_number(path, line, first), _number(path, line, second))
        for line, (first, second) in _entries(files, path, 2)
    ]


def parse_pairs(data: bytes, path: str) -> list[tuple[int, int]]:
    """Return the pairs of a checkpoint that was read, as `read_pairs` does."""
    return [
        (_number(path, line, first), _number(path, line, second))
        for line, (first, second) in _parsed(data, path, 2)
    ]


def write_pairs(files: Files, path: str, pairs: Iterable[tuple[int, int]]) -> None:
    """Replace the pairs."""
    files.write_text_atomic(path, pairs_text(pairs))


def pairs_text(pairs: Iterable[tuple[int, int]]) -> str:
    """Return the text of a checkpoint with these pairs."""
    return _text(f"{first} {second}" for first, second in pairs)


def _text(entries: Iterable[str]) -> str:
    lines = list(entries)
    return "\n".join([VERSION, str(len(lines)), *lines, ""])


def _entries(files: Files, path: str, words: int) -> list[tuple[str, list[str]]]:
    return _parsed(files.read_whole(path), path, words) if files.exists(path) else []


def _parsed(data: bytes, path: str, words: int) -> list[tuple[str, list[str]]]:
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise CorruptLog("checkpoint is not text", path=path) from error
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) < 2:
        raise CorruptLog("checkpoint is cut short", path=path)
    if lines[0].strip() != VERSION:
        raise CorruptLog("checkpoint has another version", path=path, version=lines[0])
    count = _number(path, lines[1], lines[1].strip())
    entries = [(line, line.split()) for line in lines[2:]]
    if count != len(entries):
        raise CorruptLog("checkpoint is cut short", path=path, count=count, found=len(entries))
    for line, found in entries:
        if len(found) != words:
            raise CorruptLog("checkpoint has a malformed line", path=path, line=line)
    return entries


def _number(path: str, line: str, word: str) -> int:
    if not _INTEGER.fullmatch(word):
        raise CorruptLog("checkpoint has a malformed line", path=path, line=line)
    return int(word)
