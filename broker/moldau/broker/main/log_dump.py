"""What is in the files of a log directory: each kind of file by its name, moldau's and Kafka's
alike, since they are the same.

Nothing is ever written, no lock is taken: it may be run beside a broker that works, whose newest
bytes may then be half there.
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


class Dumped(NamedTuple):
    """A file and what is in it, to be gone through once."""

    path: str
    items: Iterator[Item]


def dump(files: Files, path: str, options: DumpOptions, *, deep: bool = False) -> Iterator[Dumped]:
    """A file, or all files of a directory that are of a known kind, and (`deep`) those of the
    partitions below it. FileNotFoundError when there is no such thing."""
    if not files.stat(path).is_dir:
        yield Dumped(path, dump_file(files, path, options))
        return
    for name in files.list(path):
        below = posixpath.join(path, name)
        if files.stat(below).is_dir:
            if deep and parse_partition_dir(name) is not None:
                yield from dump(files, below, options)
        elif _kind(name) is not None:
            yield Dumped(below, dump_file(files, below, options))


def dump_file(files: Files, path: str, options: DumpOptions) -> Iterator[Item]:
    """What is in one file, and what is wrong with it."""
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
        return  # as Kafka leaves it beside an empty log
    for epoch, start_offset in read_pairs(files, path):
        yield Item("entry", {"epoch": epoch, "start_offset": start_offset})


def _text(files: Files, path: str, options: DumpOptions) -> Iterator[Item]:
    """Kafka's small text files say what they are."""
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
