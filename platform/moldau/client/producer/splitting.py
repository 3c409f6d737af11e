"""Batches that are larger than a broker takes: how large the next ones may be, and how one is made
into several. No IO.

A broker does not say what it takes, and it counts bytes after compression, while a batch is filled
by bytes before. So a partition remembers the smallest batch that was refused, aims at half of
that, and reckons with what its batches compress to: worse at once, better slowly, because a batch
that is refused costs more than one that could have been larger. Half of what was refused is more
than half of what is taken, so that a batch is split a few times at most, and those that come after
it are not.

What was refused once is not tried again while the producer lives: a limit that is raised later
makes no batches larger.
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
        """`batch` is the first one that was too large."""
        assert batch.data is not None
        self.refused_bytes = len(batch.data)
        self.ratio = _ratio(batch)

    def refused(self, batch: Batch) -> None:
        """This one was too large as well."""
        assert batch.data is not None
        self.refused_bytes = min(self.refused_bytes, len(batch.data))
        self.ratio = max(self.ratio, _ratio(batch))

    def built(self, batch: Batch) -> None:
        """A batch has its bytes. To be told once of each."""
        self.ratio = max(_ratio(batch), self.ratio - _BETTER_A_BATCH)

    def is_too_large(self, batch: Batch) -> bool:
        """Whether it has as many bytes as were refused before."""
        assert batch.data is not None
        return len(batch.data) >= self.refused_bytes

    @property
    def size_bytes_max(self) -> int:
        """Of a batch before compression."""
        return int(self.refused_bytes / 2 / self.ratio)


def _ratio(batch: Batch) -> float:
    assert batch.data is not None
    return len(batch.data) / batch.reserved_bytes


def split(batch: Batch, size_bytes_max: int, codec: Codec, level: int | None) -> list[Batch]:
    """Two parts at least, in order, each of at most so many bytes or of one record. Their outcomes
    are that of `batch` from now on. KafkaError if they cannot be made: then it is whole still."""
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
