"""Batches larger than a broker accepts: splitting one, and the size of the next ones. No IO.

A broker does not tell its limit, and it counts bytes after compression, while a batch is filled by
bytes before. So a partition remembers the smallest rejected batch, aims at half its size, and
tracks the compression ratio: up at once, down slowly, because a rejected batch costs more than one
that could have been larger. Half of what was rejected is more than half of the limit, so a batch is
split a few times at most, and later ones are not.

A rejected size is never tried again: raising the limit later makes no batches larger.
"""

from __future__ import annotations

from typing import Final

from moldau.client.producer.batch import Batch, BatchState, unbuilt
from moldau.records import BatchBuilder, Codec, Row, open_batch
from moldau.records.record import BATCH_BYTES_MAX

_BETTER_A_BATCH: Final = 0.005


class Fit:
    """How large the batches of a partition may be."""

    __slots__ = ("ratio", "refused_bytes")

    def __init__(self, batch: Batch) -> None:
        """Start with the first batch that was too large."""
        assert batch.data is not None
        self.refused_bytes = len(batch.data)
        self.ratio = _ratio(batch)

    def refused(self, batch: Batch) -> None:
        """Apply another batch that was too large."""
        assert batch.data is not None
        self.refused_bytes = min(self.refused_bytes, len(batch.data))
        self.ratio = max(self.ratio, _ratio(batch))

    def built(self, batch: Batch) -> None:
        """Update the compression ratio from a built batch. Call it once for each."""
        self.ratio = max(_ratio(batch), self.ratio - _BETTER_A_BATCH)

    def is_too_large(self, batch: Batch) -> bool:
        """Whether it has as many bytes as a rejected one."""
        assert batch.data is not None
        return len(batch.data) >= self.refused_bytes

    @property
    def size_bytes_max(self) -> int:
        """The largest size of a batch before compression."""
        return int(self.refused_bytes / 2 / self.ratio)


def _ratio(batch: Batch) -> float:
    assert batch.data is not None
    return len(batch.data) / batch.reserved_bytes


def split(batch: Batch, size_bytes_max: int, codec: Codec, level: int | None) -> list[Batch]:
    """Split the batch into two or more parts, in order, each of at most `size_bytes_max` bytes or
    one record. The outcome of `batch` is theirs from now on. Raise KafkaError if they cannot be
    made: then nothing has changed."""
    assert batch.count > 1
    size_bytes_max = min(size_bytes_max, batch.reserved_bytes // 2)
    parts = []
    try:
        rows = _rows(batch)
        start = 0
        while start < len(rows):
            builder = BatchBuilder(size_bytes_max, codec=codec, level=level)
            start += builder.extend(rows, start)
            parts.append(_part(batch, builder))
    except Exception as error:
        raise unbuilt(batch, error) from error
    batch.has_become(parts)
    return parts


def _rows(batch: Batch) -> list[Row]:
    assert batch.data is not None
    records = open_batch(batch.data).records(BATCH_BYTES_MAX)
    return [(each.timestamp, each.key, each.value, each.headers) for each in records]


def _part(batch: Batch, builder: BatchBuilder) -> Batch:
    part = Batch(batch.where, builder, batch.created)
    part.become(BatchState.READY)
    part.count = builder.count
    part.reserved_bytes = builder.size_bytes
    part.last_error = batch.last_error
    part.trace = batch.trace
    return part
