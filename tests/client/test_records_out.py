"""Records one by one: left in the middle, taken up again, never committed before they were had."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from moldau.client import PartitionRecords, TopicPartition
from moldau.client.records_out import RecordsOut
from moldau.records import Record

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def part(where: TopicPartition, first: int, count: int) -> PartitionRecords:
    records = [Record(n, 0, None, b"", ()) for n in range(first, first + count)]
    return PartitionRecords(*where, records, first + count, first + count)


def offsets(out: RecordsOut, count: int) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in islice(out.records(), count)]


def test_who_comes_back_goes_on_behind_what_he_had() -> None:
    out = RecordsOut()
    out.add([part(A, 0, 3), part(B, 7, 2)])
    assert out.consumed() == {A: 0, B: 7}
    assert offsets(out, 2) == [(0, 0), (0, 1)]
    assert out.consumed() == {A: 2, B: 7}
    assert offsets(out, 9) == [(0, 2), (1, 7), (1, 8)]
    assert out.consumed() == {}


def test_the_rest_can_be_had_in_parts() -> None:
    out = RecordsOut()
    out.add([part(A, 0, 3), part(B, 7, 2)])
    assert offsets(out, 1) == [(0, 0)]
    (found,) = out.take(1)
    assert ([r.offset for r in found.records], found.next_offset) == ([1], 2)
    assert out.consumed() == {A: 2, B: 7}
    assert [len(each.records) for each in out.take(10)] == [1, 2]
    assert out.take(10) == []


def test_what_was_sought_elsewhere_is_not_read_on() -> None:
    out = RecordsOut()
    out.add([part(A, 0, 3), part(B, 7, 2), part(A, 3, 2)])
    records = out.records()
    assert next(records).offset == 0
    out.drop([A])
    assert [(each.partition, each.offset) for each in records] == [(1, 7), (1, 8)]


class Looked(list[Record]):
    """Somebody commits just when the reading of these begins."""

    def __init__(self, records: list[Record], out: RecordsOut) -> None:
        super().__init__(records)
        self.out = out
        self.seen: list[dict[TopicPartition, int]] = []

    def __iter__(self) -> Iterator[Record]:
        self.seen.append(self.out.consumed())
        return super().__iter__()


def test_a_part_that_begins_is_at_no_time_given_out_whole_or_as_far_as_another_was() -> None:
    out = RecordsOut()
    second = part(B, 7, 2)
    looked = Looked(second.records, out)
    out.add([part(A, 1000, 3), second._replace(records=looked)])
    assert offsets(out, 4)[-1] == (1, 7)
    assert looked.seen == [{A: 1003, B: 7}]


def test_done_is_what_lies_before_the_record_or_part_at_hand() -> None:
    out = RecordsOut()
    assert out.done() is None
    out.add([part(A, 0, 3), part(B, 7, 2), part(A, 3, 2)])
    assert out.done() is None, "nobody goes through them"
    records = out.records()
    assert [next(records).offset, out.done()] == [0, {A: 0, B: 7}]
    assert [next(records).offset, next(records).offset] == [1, 2]
    assert (out.done(), out.consumed()) == ({A: 2, B: 7}, {A: 3, B: 7})
    assert next(records).offset == 7
    assert out.done() == {B: 7, A: 3}
    assert out.take_part(1) == part(B, 8, 1)._replace(next_offset=9, high_watermark=9)
    assert (out.done(), out.consumed()) == ({B: 8, A: 3}, {A: 3})
    assert [each.next_offset for each in out.take(9)] == [5]
    assert out.done() is None, "it is not known what of this was worked on"


def test_what_was_not_decoded_yet_goes_by_the_next_polls_count_and_pauses() -> None:
    paused: set[TopicPartition] = set()
    out = RecordsOut()
    out.is_paused = paused.__contains__
    out.hold([part(A, 0, 5), part(B, 7, 3)])
    assert sum(len(each.records) for each in out.begin_decoding(80)) == 8
    assert out.consumed() == {A: 0, B: 7}
    paused.add(A)
    assert [each.offsets() for each in out.begin_decoding(1)] == [[7]]
    assert out.end_decoding() == {B}
    assert out.consumed() == {A: 0, B: 8}
    paused.clear()
    assert [each.offsets() for each in out.begin_decoding(7)] == [[0, 1, 2, 3, 4], [8, 9]]
    paused.add(A)
    assert out.end_decoding() == {B}, "paused while it was decoded"
    paused.clear()
    assert [each.offsets() for each in out.begin_decoding(80)] == [[0, 1, 2, 3, 4]]
    out.drop([A])
    assert (out.end_decoding(), out.consumed()) == (set(), {})


class Turns:
    """A lock that counts."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        return


def test_what_touches_more_than_the_record_at_hand_takes_the_lock_and_a_record_does_not() -> None:
    turns = Turns()
    out = RecordsOut(turns)
    out.add([part(A, 0, 3), part(B, 7, 2)])
    records = out.records()
    next(records)
    begun = turns.count
    assert begun == 2
    assert [next(records).offset, next(records).offset] == [1, 2]
    assert turns.count == begun
    next(records)
    out.consumed()
    out.drop([A])
    out.take(1)
    assert turns.count == begun + 4


@given(st.lists(st.integers(1, 5), max_size=6), st.lists(st.integers(0, 7), max_size=20))
def test_everything_once_however_it_is_taken(sizes: list[int], steps: list[int]) -> None:
    out = RecordsOut()
    first = 0
    for size in sizes:
        out.add([part(A, first, size)])
        first += size
    found: list[int] = []
    for step in steps:
        if step % 2:
            found += [r.offset for each in out.take(step) for r in each.records]
        else:
            found += [each.offset for each in islice(out.records(), step)]
        left = out.consumed()
        assert left.get(A, first) == len(found)
    found += [r.offset for each in out.take(1000) for r in each.records]
    assert found == list(range(first))
