"""Writes a batch with fewer records, for the log cleaner.

Invariants: kept records stay bit for bit the same (an unreadable header key survives), and so do
base offset, last offset, producer, epoch and sequence, which duplicate detection depends on. Only a
delete horizon, set once, changes the base timestamp and with it the records' timestamp deltas.

Records are copied as bytes. To decode and encode them would be slower, and would lose data that
cannot be decoded. A batch of many records is read part by part, so that no call holds the
interpreter for longer than a part takes: others run between two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from moldau.records import kernel
from moldau.records.batch import Batch, seal
from moldau.records.codecs import DECOMPRESSED_BYTES_MAX, RECORD_BYTES_MAX, compress
from moldau.records.header import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    LAYOUT,
    NO_TIMESTAMP,
    OVERHEAD_BYTES,
    BatchHeader,
    Buffer,
)
from moldau.records.parts import entries_by_part
from moldau.records.record import Entry

_INT64_MIN: Final = -(1 << 63)
_INT64_MAX: Final = (1 << 63) - 1


def retain(
    batch: Batch,
    keep: Callable[[Entry], bool],
    *,
    delete_horizon_ms: int | None = None,
    keep_empty: bool = False,
    limit: int = DECOMPRESSED_BYTES_MAX,
    record_bytes_max: int = RECORD_BYTES_MAX,
) -> Buffer | None:
    """Return the batch with the records that `keep` accepts; its own bytes if nothing changes.

    Without any such record return None, or an empty batch if `keep_empty` says that its producer
    still needs it. `delete_horizon_ms` is written if the batch has none yet. Raise LargeRecord if a
    record of a compressed batch is larger than `record_bytes_max`.
    """
    header = batch.header
    parts = []
    count = 0
    for section, entries in entries_by_part(batch, limit, record_bytes_max):
        count += len(entries)
        found = [entry for entry in entries if keep(entry)]
        if found:
            parts.append((memoryview(section), found))
    kept = [entry for _, entries in parts for entry in entries]
    if not kept:
        return _empty(header) if keep_empty else None
    base = _new_base(header, kept, delete_horizon_ms)
    if base is None and len(kept) == count:
        return batch.data
    pieces: list[Buffer] = []
    if base is None:
        for section, entries in parts:
            pieces += [section[entry.start : entry.end] for entry in entries]
    else:
        for section, entries in parts:
            pieces += [piece for entry in entries for piece in _rebased(section, entry, base)]
        header = header._replace(base_timestamp=base, attributes=header.attributes | DELETE_HORIZON)
    newest = max(entry.timestamp for entry in kept)
    records = compress(batch.codec, b"".join(pieces))
    return _assemble(header._replace(max_timestamp=newest, record_count=len(kept)), records)


def _new_base(header: BatchHeader, kept: list[Entry], horizon: int | None) -> int | None:
    """Return the base timestamp that stores the horizon; None if none is to be set, or fits."""
    if horizon is None or header.delete_horizon_ms is not None:
        return None
    fits = all(_INT64_MIN <= entry.timestamp - horizon <= _INT64_MAX for entry in kept)
    return horizon if fits else None


def _rebased(section: memoryview, entry: Entry, base: int) -> tuple[bytes, bytes, memoryview]:
    """Return a record, in pieces, whose timestamp delta counts from `base`."""
    front = b"\0" + kernel.varint(entry.timestamp - base)
    tail = section[entry.tail : entry.end]
    return kernel.varint(len(front) + len(tail)), front, tail


def _empty(header: BatchHeader) -> bytearray:
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return _assemble(
        header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b""
    )


def _assemble(header: BatchHeader, records: Buffer) -> bytearray:
    size = HEADER_BYTES + len(records)
    header = header._replace(batch_length=size - OVERHEAD_BYTES)
    batch = bytearray(LAYOUT.pack(*header))
    batch += records
    seal(batch, 0, size)
    return batch
