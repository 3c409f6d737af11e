"""What a worker takes from its consumer: the same records, with and without objects of them."""

from __future__ import annotations

import pytest

from moldau.client import TopicPartition
from moldau.client.consumer.records import FetchedRecords
from moldau.records import encode_batch
from moldau.streams.worker.reader import fetched, fetched_columns

WHERE = TopicPartition("t", 0)


@pytest.mark.parametrize("headers", [(), (("n", b"v"), ("e", None))])
def test_columns_are_those_of_the_records(headers: tuple[tuple[str, bytes | None], ...]) -> None:
    batches = [
        encode_batch([(7, b"k", b"v", headers), (8, None, b"", ())], 3),
        encode_batch([(9, b"", None, headers)], 9),
    ]
    one, other = (FetchedRecords(WHERE, 3, b"".join(batches), None, 12) for _ in range(2))
    records = one.take(10, check_crc=True)
    columns = other.take_columns(10, check_crc=True)
    assert records is not None
    assert columns is not None

    by_record, by_column = fetched(records), fetched_columns(columns)

    assert by_column.where == by_record.where
    for name in ("offsets", "timestamps", "keys", "values", "next_offset", "headers"):
        found, wanted = (getattr(each.chunk, name) for each in (by_column, by_record))
        assert found == wanted or [tuple(each) for each in found] == [tuple(w) for w in wanted]
