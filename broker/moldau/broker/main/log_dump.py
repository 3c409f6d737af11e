"""Dump the files of a log directory. The name shows the kind of a file; moldau and Kafka have the
same files.

Nothing is ever written, and no lock is taken: a broker may run at the same time, whose newest bytes
may then be incomplete.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from moldau.broker.log.checkpoint import read_offsets, read_pairs
from moldau.broker.log.names import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    INDEX,
    LEADER_EPOCHS,
    LOCAL_STARTS,
    LOG,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    SNAPSHOT,
    TIME_INDEX,
    TRANSACTION_INDEX,
    parse_partition_dir,
    split_suffix,
)
from moldau.broker.main.log_batches import CHECKPOINT, DumpOptions, Item, dump_batches, problem
from moldau.broker.main.log_indexes import dump_index, dump_producers, dump_transactions
from moldau.errors import BadData, ConfigError
from moldau.runtime.files import Files

_QUORUM_STATE: Final = "quorum-state"


class FileDump(NamedTuple):
    """A file and its items, which can be iterated once."""

    path: str
    items: Iterator[Item]


def dump(
    files: Files, path: str, options: DumpOptions, *, deep: bool = False
) -> Iterator[FileDump]:
    """Yield a file, or all files of known kinds in a directory, and (`deep`) those of the
    partitions below it. Raise FileNotFoundError if the path does not exist."""
    if not files.stat(path).is_dir:
        yield FileDump(path, dump_file(files, path, options))
        return
    for name in files.list(path):
        below = posixpath.join(path, name)
        if files.stat(below).is_dir:
            if deep and parse_partition_dir(name) is not None:
                yield from dump(files, below, options)
        elif _kind(name) is not None:
            yield FileDump(below, dump_file(files, below, options))


def dump_file(files: Files, path: str, options: DumpOptions) -> Iterator[Item]:
    """Yield the contents and the problems of a file. Raise ConfigError if its kind is unknown."""
    kind = _kind(posixpath.basename(path))
    if kind is None:
        raise ConfigError("no file of a log is called so", path=path)
    try:
        yield from kind(files, path, options)
    except BadData as error:
        yield problem(error.reason, **error.context)


Kind = Callable[[Files, str, DumpOptions], Iterator[Item]]


def _kind(name: str) -> Kind | None:
    by_name = _BY_NAME.get(name)
    if by_name is not None:
        return by_name
    name, _ = split_suffix(name)
    for ending, kind in _BY_ENDING.items():
        if name.endswith(ending):
            return kind
    return None


def _offsets(files: Files, path: str, options: DumpOptions) -> Iterator[Item]:
    for where, offset in read_offsets(files, path).items():
        facts = {"topic": where.topic, "partition": where.partition, "offset": offset}
        yield Item("entry", facts)


def _epochs(files: Files, path: str, options: DumpOptions) -> Iterator[Item]:
    if not files.stat(path).size_bytes:
        return  # Kafka leaves such an empty file beside an empty log
    for epoch, start_offset in read_pairs(files, path):
        yield Item("entry", {"epoch": epoch, "start_offset": start_offset})


def _text(files: Files, path: str, options: DumpOptions) -> Iterator[Item]:
    """Yield the lines of one of Kafka's small text files, without its comments."""
    try:
        text = files.read_text(path)
    except UnicodeDecodeError:
        yield problem("the file is not text")
        return
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            yield Item("line", {"text": line.strip()})


_BY_NAME: Final[dict[str, Kind]] = {
    LEADER_EPOCHS: _epochs,
    RECOVERY_POINTS: _offsets,
    LOG_STARTS: _offsets,
    LOCAL_STARTS: _offsets,
    HIGH_WATERMARKS: _offsets,
    CLEANED_OFFSETS: _offsets,
    PARTITION_METADATA: _text,
    META_PROPERTIES: _text,
    CLEAN_SHUTDOWN: _text,
    _QUORUM_STATE: _text,
}
_BY_ENDING: Final[dict[str, Kind]] = {
    TRANSACTION_INDEX: lambda files, path, _: dump_transactions(files, path),
    TIME_INDEX: lambda files, path, _: dump_index(files, path),
    INDEX: lambda files, path, _: dump_index(files, path),
    SNAPSHOT: lambda files, path, _: dump_producers(files, path),
    LOG: dump_batches,
    CHECKPOINT: dump_batches,
}
