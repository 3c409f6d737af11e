"""The headers of the batches in a slice of a log, and how many of them are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.broker.log.slice import LogSlice, SegmentFile
from moldau.broker.share.batches import Enough, read_batches
from moldau.records import Producer, encode_batch
from moldau.runtime.real_files import RealFiles

PRODUCER = 7
ABORTED_FIRST, ABORTED_LAST = 20, 29


def slice_of(folder: Path) -> LogSlice:
    """Ten batches of ten records; those from offset 20 to 29 are of a transaction."""
    data = b""
    for first in range(0, 100, 10):
        is_transactional = first == ABORTED_FIRST
        producer = Producer(PRODUCER, 0, 0, is_transactional=is_transactional)
        data += encode_batch([(0, None, b"value", ())] * 10, first, producer=producer)
    path = folder / "log"
    path.write_bytes(data)
    return LogSlice(SegmentFile(RealFiles().open(str(path))), 0, len(data))


@pytest.mark.parametrize(
    ("enough", "last"),
    [
        (None, 99),
        (Enough(0, 1), 9),
        (Enough(0, 10), 9),
        (Enough(0, 11), 19),
        (Enough(15, 5), 19),
        (Enough(15, 6), 29),
        (Enough(95, 500), 99),
    ],
)
def test_no_batch_is_read_behind_as_many_new_records_as_are_wanted(
    tmp_path: Path, enough: Enough | None, last: int
) -> None:
    found = read_batches(slice_of(tmp_path), {}, enough)
    assert found[-1].batch.last == last
    assert [each.batch.first for each in found] == list(range(0, last, 10))


def test_aborted_records_are_passed_over_and_not_counted(tmp_path: Path) -> None:
    found = read_batches(slice_of(tmp_path), {PRODUCER: [ABORTED_FIRST]}, Enough(15, 6))
    assert found[-1].batch.last == 39
    assert [each.batch.first for each in found if each.batch.is_aborted] == [ABORTED_FIRST]
    assert found[2].batch.last == ABORTED_LAST
