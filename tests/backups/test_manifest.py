"""What a backup knows of its batches."""

from __future__ import annotations

import pytest

from moldau.backups.log_reader import chunk_of
from moldau.backups.manifest import LogBackup, Manifest, TopicBackup
from moldau.records import NO_PRODUCER, Batch, Producer, encode_batch, open_batch


def batch(producer_id: int | None) -> Batch:
    producer = NO_PRODUCER if producer_id is None else Producer(producer_id, 0, 0)
    return open_batch(encode_batch([(0, None, b"value", ())], producer=producer))


@pytest.mark.parametrize(
    ("producer_ids", "end"),
    [
        ([None], 0),
        ([0], 1),
        ([7, 3, None], 8),
        ([7, 2**63 - 1, 3], 8),
        ([2**62], 0),
        ([2**62 - 1], 2**62),
    ],
)
def test_ids_that_no_cluster_gives_out_do_not_count(
    producer_ids: list[int | None], end: int
) -> None:
    chunk = chunk_of([batch(each) for each in producer_ids], 0)
    topic = TopicBackup("orders", bytes(16), 1, {}, (LogBackup(0, 1, 0, (chunk,)),))
    assert Manifest("cluster", 0, (topic,), None, {}).producer_id_end == end
