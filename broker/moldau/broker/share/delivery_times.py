"""When the records of a share partition are to be delivered, as they name it (`deliver-at`).

The headers of records are in the records, so batches are decompressed for it. Small ones are read
at once. One that takes long, because a few kilobytes may become a hundred megabytes, is read in a
thread, and the fetches of the share partition wait for that. What was found there is kept until the
next such batch: a batch is fetched again as often as members take a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeVar

from moldau.broker.log.admission import as_kafka_error
from moldau.broker.log.slice import LogSlice
from moldau.broker.share.batches import LocatedBatch
from moldau.broker.share.window import ReadBatch
from moldau.errors import CorruptRecord, without_frames
from moldau.errors.codes import KafkaError
from moldau.records import (
    HEADER_BYTES,
    Batch,
    BatchHeader,
    OversizedRecords,
    Record,
    kernel,
    open_batch,
    read_header,
)
from moldau.records.codecs import DECOMPRESSED_BYTES_MAX, USUAL_BYTES_MAX
from moldau.records.diagnosis import OBJECTS_MAX
from moldau.records.parts import PART_RECORDS, whole_parts

T = TypeVar("T")

DELIVER_AT: Final = "deliver-at"
_LATEST_MS: Final = 2**53


class Thread(Protocol):
    """Runs work in a thread, and gives its result or error to `then` on the event loop."""

    def __call__(
        self, work: Callable[[], T], then: Callable[[T | KafkaError], None], /
    ) -> None: ...


class TimedRun(NamedTuple):
    """Records up to an offset that are delivered at one wall clock time; 0 is at once."""

    last: int
    wall_ms: int


class _Key(NamedTuple):
    """What a batch is known by."""

    first: int
    crc: int


class DeliveryTimes:
    """The times of the records of one share partition."""

    def __init__(self, in_thread: Thread, on_read: Callable[[], None]) -> None:
        """`on_read` is called when a batch was read in a thread."""
        self._in_thread = in_thread
        self._on_read = on_read
        self._asked: _Key | None = None
        self._found: Sequence[TimedRun] | KafkaError | None = None

    def timed(
        self, read: LogSlice, found: Sequence[LocatedBatch], ahead_ms: int
    ) -> list[ReadBatch]:
        """Return the batches, cut where the time changes, up to one that takes long to read. If
        that is the first one there are none, until it was read. `ahead_ms` is what the wall clock
        says more than the window's. Raise KafkaError for a damaged batch."""
        runs: list[ReadBatch] = []
        left = PART_RECORDS
        for each in found:
            header = read_header(read.read_at(each.position, HEADER_BYTES))
            if each.batch.is_aborted or header.is_control:
                runs.append(each.batch)
                continue
            known: Iterable[TimedRun] | None = self._known(header)
            if known is None and header.record_count <= left:
                left -= header.record_count
                known = _read_now(open_batch(read.read_at(each.position, each.size_bytes)))
            if known is None:
                if not runs:
                    self._read_later(header, read.read_at(each.position, each.size_bytes))
                break
            runs += _cut(each.batch, known, ahead_ms)
        return runs

    def _known(self, header: BatchHeader) -> Sequence[TimedRun] | None:
        if self._asked != _Key(header.base_offset, header.crc):
            return None
        found = self._found
        if isinstance(found, KafkaError):
            self._asked = self._found = None  # the next fetch tries again
            raise without_frames(found)
        return found

    def _read_later(self, header: BatchHeader, data: bytes | bytearray | memoryview) -> None:
        key = _Key(header.base_offset, header.crc)
        if self._asked == key:
            return  # it is being read
        self._asked, self._found = key, None
        self._in_thread(partial(_read, Batch(header, memoryview(bytes(data)))), self._arrived(key))

    def _arrived(self, key: _Key) -> Callable[[list[TimedRun] | KafkaError], None]:
        def then(found: list[TimedRun] | KafkaError) -> None:
            if self._asked == key:
                self._found = without_frames(found)
                self._on_read()

        return then


def _read_now(batch: Batch) -> list[TimedRun] | None:
    """Return the times of a batch; None if it takes long."""
    try:
        return _runs_of(batch, USUAL_BYTES_MAX)
    except OversizedRecords:
        return None
    except CorruptRecord as error:
        raise as_kafka_error(error) from error


def _read(batch: Batch) -> list[TimedRun]:
    try:
        return _runs_of(batch, DECOMPRESSED_BYTES_MAX)
    except CorruptRecord as error:
        raise as_kafka_error(error) from error


def _runs_of(batch: Batch, limit: int) -> list[TimedRun]:
    batch.check_crc()
    runs: list[TimedRun] = []
    for data, header in whole_parts(batch, limit):
        for record in kernel.decode(data, header, OBJECTS_MAX):
            wall_ms = deliver_at(record)
            if runs and runs[-1].wall_ms == wall_ms:
                runs.pop()
            runs.append(TimedRun(record.offset, wall_ms))
    return runs


def _cut(batch: ReadBatch, known: Iterable[TimedRun], ahead_ms: int) -> list[ReadBatch]:
    """Return the pieces of a batch. Offsets that compaction has emptied belong to what follows."""
    runs: list[ReadBatch] = []
    at = batch.first
    for last, wall_ms in known:
        due_ms = max(wall_ms - ahead_ms, 0) if wall_ms else 0
        if runs and runs[-1].due_ms == due_ms:
            runs[-1] = runs[-1]._replace(last=last)
        else:
            runs.append(ReadBatch(at, last, due_ms=due_ms))
        at = last + 1
    if at <= batch.last:
        runs.append(ReadBatch(at, batch.last))
    return runs


def deliver_at(record: Record) -> int:
    """Return the wall clock time before which a record is not to be delivered; 0 if it has none, or
    one that is not understood."""
    for name, value in record.headers:
        if name == DELIVER_AT and value is not None:
            text = bytes(value).decode(errors="replace")
            if text.isascii() and text.isdigit():
                return min(int(text[:18]), _LATEST_MS)
            try:
                at = datetime.fromisoformat(text)
                return int(at.timestamp() * 1000) if at.tzinfo is not None else 0
            except (ValueError, OverflowError):
                return 0
    return 0
