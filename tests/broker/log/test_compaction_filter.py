"""What is left of a batch."""

from __future__ import annotations

from moldau.broker.log.compaction_filter import BatchFilter, Round
from moldau.broker.log.compaction_offsets import OffsetMap
from moldau.broker.log.compaction_transactions import CleanedTransactions
from moldau.broker.log.producer_state import ProducerStateEntry
from moldau.records import Batch, Buffer, Record, encode_batch, open_batch
from tests.broker.log.producing import NOW, marker_batch

DAY_MS = 86_400_000


def batch_of(*pairs: tuple[bytes | None, bytes | None]) -> Batch:
    return open_batch(encode_batch([(NOW, key, value, ()) for key, value in pairs], 10))


def filter_of(
    latest: int,
    producers: dict[int, ProducerStateEntry] | None = None,
    newest: dict[bytes, int] | None = None,
) -> BatchFilter:
    offsets = OffsetMap(1024)
    for key, offset in (newest or {}).items():
        offsets.put(key, offset)
    round = Round(latest, 1000, producers or {}, DAY_MS, NOW)
    return BatchFilter(round, offsets, CleanedTransactions(()))


def left(batch_filter: BatchFilter, batch: Batch) -> list[Record]:
    kept = batch_filter.filter(batch)
    return [] if kept is None else open_batch(kept).records()


def test_what_lies_behind_the_map_is_not_touched() -> None:
    batch = batch_of((b"a", b"1"), (None, b"2"), (b"a", b"3"), (None, None))
    assert [each.offset for each in left(filter_of(11, newest={b"a": 12}), batch)] == [12, 13]
    assert [each.offset for each in left(filter_of(9), batch)] == [10, 11, 12, 13]


def test_what_is_not_changed_is_not_copied() -> None:
    batch = batch_of((b"a", b"1"), (b"b", b"1"))
    assert filter_of(99, newest={b"a": 10, b"b": 11}).filter(batch) is batch.data


def test_a_tombstone_that_is_to_be_kept_sets_the_horizon_once() -> None:
    kept = filter_of(99, newest={b"a": 11}).filter(batch_of((b"a", b"1"), (b"a", None)))
    assert kept is not None
    marked = open_batch(kept)
    assert marked.header.delete_horizon_ms == NOW + DAY_MS
    assert filter_of(99).filter(marked) is marked.data
    gone = filter_of(99, newest={b"a": 11}).filter(batch_of((b"a", None), (b"a", b"1")))
    assert gone is not None
    assert open_batch(gone).header.delete_horizon_ms is None


def test_a_tombstone_and_a_marker_that_are_due_wait_for_replicas_that_are_out_of_sync() -> None:
    tombstone = filter_of(99, newest={b"a": 10}).filter(batch_of((b"a", None)))
    marker = filter_of(99).filter(marker_batch(7, 4, offset=10))
    assert tombstone is not None
    assert marker is not None

    def kept(data: Buffer, *, is_everywhere: bool) -> Buffer | None:
        round = Round(99, 1000, {}, DAY_MS, NOW + DAY_MS, is_everywhere)
        newest = OffsetMap(1024)
        newest.put(b"a", 10)
        return BatchFilter(round, newest, CleanedTransactions(())).filter(open_batch(data))

    for due in (tombstone, marker):
        again = kept(due, is_everywhere=False)
        assert again is not None
        assert open_batch(again).header == open_batch(due).header
        assert kept(due, is_everywhere=True) is None


def test_a_marker_that_has_the_producers_last_epoch_stays_be_it_empty() -> None:
    marker = marker_batch(7, 4, offset=10)
    first = filter_of(99).filter(marker)
    assert first is not None
    marked = open_batch(first)
    assert marked.header.delete_horizon_ms == NOW + DAY_MS
    late = Round(99, 1000, {7: ProducerStateEntry(7, 4)}, DAY_MS, NOW + DAY_MS)
    emptied = BatchFilter(late, OffsetMap(1024), CleanedTransactions(())).filter(marked)
    assert emptied is not None
    header = open_batch(emptied).header
    assert (header.record_count, header.producer_epoch, header.is_control) == (0, 4, True)
    other = Round(99, 1000, {7: ProducerStateEntry(7, 5)}, DAY_MS, NOW + DAY_MS)
    assert BatchFilter(other, OffsetMap(1024), CleanedTransactions(())).filter(marked) is None
