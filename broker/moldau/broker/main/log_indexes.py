"""The files beside a segment: its indexes, compared with the log, and its producer snapshot.

A running broker keeps the files of its newest indexes longer than their entries, filled with zeros,
which are no entries. An index without its log beside it is shown and not checked.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.broker.log.names import INDEX, LOG, TIME_INDEX, parse_segment_file, split_suffix
from moldau.broker.log.offset_index import OffsetIndex
from moldau.broker.log.producer_snapshot import decode_snapshot
from moldau.broker.log.scan import batches
from moldau.broker.log.slice import SegmentFile
from moldau.broker.log.time_index import TimeIndex
from moldau.broker.log.transaction_index import TransactionIndex
from moldau.broker.main.log_batches import Item, problem
from moldau.errors import BadData
from moldau.runtime.files import Files

_PROBLEMS_MAX: Final = 20


class _Batch(NamedTuple):
    """The fields of a batch that its index entries must match."""

    base_offset: int
    last_offset: int
    max_timestamp: int


class _Log:
    """The batches of the log beside an index: by position, and in order."""

    def __init__(self, files: Files, path: str) -> None:
        self.by_position: dict[int, _Batch] = {}
        self._ordered: list[_Batch] = []
        self._ends: list[int] = []
        self.is_there = files.exists(path)
        if not self.is_there:
            return
        source = SegmentFile(files.open(path))
        try:
            for batch in batches(source, 0, source.file.size):
                header = batch.header
                found = _Batch(header.base_offset, header.last_offset, header.max_timestamp)
                self.by_position[batch.position] = found
                self._ordered.append(found)
                self._ends.append(found.last_offset)
        except BadData:
            pass  # problems of the log are reported where the log itself is dumped

    def holding(self, offset: int) -> _Batch | None:
        """Return the batch that has this offset, or had it before compaction, or None."""
        index = bisect_left(self._ends, offset)
        if index == len(self._ordered) or self._ordered[index].base_offset > offset:
            return None
        return self._ordered[index]


def dump_index(files: Files, path: str) -> Iterator[Item]:
    """Yield the entries of an `.index` or a `.timeindex`, and its problems."""
    with files.open(path) as file:
        data = file.read_at(0, file.size)
    base_offset = _base_offset(path)
    name, suffix = split_suffix(path)
    is_offsets = name.endswith(INDEX)
    entry = OffsetIndex.entry if is_offsets else TimeIndex.entry
    if len(data) % entry.size:
        yield problem("the file ends within an entry", size_bytes=len(data), entry=entry.size)
    whole = len(data) - len(data) % entry.size
    log = _Log(files, name.removesuffix(INDEX if is_offsets else TIME_INDEX) + LOG + suffix)
    problems = 0
    previous = None
    for number, (first, second) in enumerate(entry.iter_unpack(data[:whole])):
        if not first and not second and (number or not any(data)):
            return
        pair = (base_offset + first, second) if is_offsets else (first, base_offset + second)
        names = ("offset", "position") if is_offsets else ("timestamp", "offset")
        facts = dict(zip(names, pair, strict=True))
        yield Item("entry", facts)
        if previous is not None and not pair[0] > previous[0]:
            yield problem("entries do not ascend", **facts)
        previous = pair
        wrong = _wrong_offset(log, pair) if is_offsets else _wrong_time(log, pair)
        if wrong is not None and problems < _PROBLEMS_MAX:
            problems += 1
            yield problem(wrong, **facts)


def _base_offset(path: str) -> int:
    parsed = parse_segment_file(split_suffix(path.rpartition("/")[2])[0])
    return 0 if parsed is None else parsed[0]


def _wrong_offset(log: _Log, entry: tuple[int, int]) -> str | None:
    offset, position = entry
    if not log.is_there or (not position and not log.by_position):
        return None
    batch = log.by_position.get(position)
    if batch is None:
        return "no batch begins there"
    if not batch.base_offset <= offset <= batch.last_offset:
        return f"the batch there is that of {batch.base_offset} to {batch.last_offset}"
    return None


def _wrong_time(log: _Log, entry: tuple[int, int]) -> str | None:
    timestamp, offset = entry
    if not log.is_there or not log.by_position:
        return None
    batch = log.holding(offset)
    if batch is None:
        return "the log has no batch of that offset"
    if batch.max_timestamp != timestamp:
        return f"the newest timestamp of that batch is {batch.max_timestamp}"
    return None


def dump_transactions(files: Files, path: str) -> Iterator[Item]:
    """Yield the entries of a `.txnindex`: the aborted transactions."""
    index = TransactionIndex(files, path, _base_offset(path))
    index.check()
    for each in index.all():
        yield Item("entry", each._asdict())


def dump_producers(files: Files, path: str) -> Iterator[Item]:
    """Yield the entries of a `.snapshot`: the producers at the offset in its name."""
    with files.open(path) as file:
        data = file.read_at(0, file.size)
    for each in decode_snapshot(data):
        yield Item(
            "entry",
            {
                "producer": each.producer_id,
                "epoch": each.epoch,
                "last_sequence": each.last_sequence,
                "last_offset": each.last_data_offset,
                "last_timestamp": each.last_timestamp,
                "coordinator_epoch": each.coordinator_epoch,
                "transaction_first_offset": each.transaction_first_offset,
            },
        )
