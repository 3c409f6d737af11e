"""Records one by one: left in the middle, taken up again, never committed before they were had."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import islice, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client import ConsumerRecord, PartitionRecords, TopicPartition
from moldau.client.consumer.progress import ReadProgress

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def part(where: TopicPartition, first: int, count: int) -> PartitionRecords:
    records = [ConsumerRecord(*where, n, 0, None, b"") for n in range(first, first + count)]
    return PartitionRecords(*where, records, first + count, first + count)


def offsets(out: ReadProgress, count: int) -> list[tuple[int, int]]:
    return [(each.partition, each.offset) for each in islice(out.records(), count)]


def test_who_comes_back_goes_on_behind_what_he_had() -> None:
    out = ReadProgress({})
    out.add([part(A, 0, 3), part(B, 7, 2)])
    assert out.returned() == {A: 0, B: 7}
    assert offsets(out, 2) == [(0, 0), (0, 1)]
    assert out.returned() == {A: 2, B: 7}
    assert offsets(out, 9) == [(0, 2), (1, 7), (1, 8)]
    assert out.returned() == {}


def test_the_rest_can_be_had_in_parts() -> None:
    out = ReadProgress({})
    out.add([part(A, 0, 3), part(B, 7, 2)])
    assert offsets(out, 1) == [(0, 0)]
    (found,) = out.take(1)
    assert ([r.offset for r in found.records], found.next_offset) == ([1], 2)
    assert out.returned() == {A: 2, B: 7}
    assert [len(each.records) for each in out.take(10)] == [1, 2]
    assert out.take(10) == []


def test_while_a_rebalance_takes_partitions_away_nothing_is_given() -> None:
    out = ReadProgress({})
    out.add([part(A, 0, 3), part(B, 7, 2)])
    out.hold([part(A, 3, 2)])
    records = out.records()
    assert next(records).offset == 0
    out.withhold()
    assert next(records, None) is None
    assert (offsets(out, 9), out.take(9), out.take_part(9), out.begin_decoding(9)) == ([],) * 2 + (
        None,
        [],
    )
    assert out.returned() == {A: 1, B: 7}
    out.is_withheld = False
    assert offsets(out, 9) == [(0, 1), (0, 2), (1, 7), (1, 8)]
    assert [len(each.records) for each in out.begin_decoding(9)] == [2]


def test_before_a_poll_that_is_awaited_nothing_is_given_one_by_one() -> None:
    out = ReadProgress({})
    out.add([part(A, 0, 3), part(B, 7, 2)])
    records = out.records()
    assert next(records).offset == 0
    out.need_poll()
    assert (out.finished(), out.returned()) == ({A: 0, B: 7}, {A: 1, B: 7})
    assert (next(records, None), offsets(out, 9), out.take_part(9)) == (None, [], None)
    out.needs_poll = False
    assert offsets(out, 9) == [(0, 1), (0, 2), (1, 7), (1, 8)]


def test_what_was_sought_elsewhere_is_not_read_on() -> None:
    out = ReadProgress({})
    out.add([part(A, 0, 3), part(B, 7, 2), part(A, 3, 2)])
    records = out.records()
    assert next(records).offset == 0
    out.drop([A])
    assert [(each.partition, each.offset) for each in records] == [(1, 7), (1, 8)]


class Looked(list[ConsumerRecord]):
    """Somebody commits just when the reading of these begins."""

    def __init__(self, records: Sequence[ConsumerRecord], out: ReadProgress) -> None:
        super().__init__(records)
        self.out = out
        self.seen: list[dict[TopicPartition, int]] = []

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and not self.seen:
            self.seen.append({})
            self.seen[0] = self.out.returned()
        return super().__getitem__(index)


def test_a_part_that_begins_is_at_no_time_given_out_whole_or_as_far_as_another_was() -> None:
    out = ReadProgress({})
    second = part(B, 7, 2)
    looked = Looked(second.records, out)
    out.add([part(A, 1000, 3), second._replace(records=looked)])
    assert offsets(out, 4)[-1] == (1, 7)
    assert looked.seen == [{B: 7}]


def test_done_is_what_lies_before_what_is_at_hand() -> None:
    out = ReadProgress({})
    assert out.finished() == {}
    out.add([part(A, 0, 3), part(B, 7, 2), part(A, 3, 2)])
    assert out.finished() == {A: 0, B: 7}
    records = out.records()
    assert [next(records).offset, out.finished()] == [0, {A: 0, B: 7}]
    assert [next(records).offset, next(records).offset] == [1, 2]
    assert (out.finished(), out.returned()) == ({A: 2, B: 7}, {A: 3, B: 7})
    assert next(records).offset == 7
    assert out.finished() == {B: 7, A: 3}
    assert out.take_part(1) == part(B, 8, 1)._replace(next_offset=9, high_watermark=9)
    assert (out.finished(), out.returned()) == ({B: 8, A: 3}, {A: 3})
    found = out.take(9)
    out.gave(found)
    assert [each.next_offset for each in found] == [5]
    assert (out.finished(), out.returned()) == ({A: 3}, {})
    out.finish()
    assert out.finished() == {}


def test_what_was_not_decoded_yet_goes_by_the_next_polls_count_and_pauses() -> None:
    paused: set[TopicPartition] = set()
    out = ReadProgress({})
    out.paused = paused
    out.hold([part(A, 0, 5), part(B, 7, 3)])
    assert sum(len(each.records) for each in out.begin_decoding(80)) == 8
    assert out.returned() == {A: 0, B: 7}
    paused.add(A)
    assert [each.offsets() for each in out.begin_decoding(1)] == [[7]]
    assert out.end_decoding() == {B}
    assert out.returned() == {A: 0, B: 8}
    paused.clear()
    assert [each.offsets() for each in out.begin_decoding(7)] == [[0, 1, 2, 3, 4], [8, 9]]
    paused.add(A)
    assert out.end_decoding() == {B}, "paused while it was decoded"
    paused.clear()
    assert [each.offsets() for each in out.begin_decoding(80)] == [[0, 1, 2, 3, 4]]
    out.drop([A])
    assert (out.end_decoding(), out.returned()) == (set(), {})


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
    out = ReadProgress({}, turns)
    out.add([part(A, 0, 3), part(B, 7, 2)])
    records = out.records()
    next(records)
    begun = turns.count
    assert begun == 2
    assert [next(records).offset, next(records).offset] == [1, 2]
    assert turns.count == begun
    next(records)
    out.returned()
    out.drop([A])
    out.take(1)
    assert turns.count == begun + 4


@given(st.lists(st.integers(1, 5), max_size=6), st.lists(st.integers(0, 7), max_size=20))
def test_everything_once_however_it_is_taken(sizes: list[int], steps: list[int]) -> None:
    out = ReadProgress({})
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
        left = out.returned()
        assert left.get(A, first) == len(found)
    found += [r.offset for each in out.take(1000) for r in each.records]
    assert found == list(range(first))


def test_what_is_added_lies_before_what_comes_after_it_in_its_log() -> None:
    paused = {A, B}
    out = ReadProgress({})
    out.paused = paused
    out.add([part(A, 100, 400), part(B, 100, 400)])
    paused.clear()
    found = out.take(500)
    assert [(each.offsets()[0], len(each.records)) for each in found] == [(100, 400), (100, 100)]
    out.add(found)
    assert out.returned() == {A: 100, B: 100}
    given = offsets(out, 801)
    assert all([o for n, o in given if n == each] == list(range(100, 500)) for each in (0, 1))


def test_what_nobody_was_given_comes_first_again_also_before_what_was_paused_meanwhile() -> None:
    paused: set[TopicPartition] = set()
    out = ReadProgress({})
    out.paused = paused
    out.add([part(A, 0, 5), part(B, 0, 5)])
    found = out.take(3)
    paused.add(A)
    out.take_back(found)
    assert out.returned() == {A: 0, B: 0}
    paused.clear()
    assert offsets(out, 11) == [(n, o) for n in (0, 1) for o in range(5)]


def test_what_is_not_decoded_waits_for_what_is() -> None:
    paused = {A}
    out = ReadProgress({})
    out.paused = paused
    out.add([part(A, 0, 2)])
    out.hold([part(A, 2, 2), part(B, 0, 1)])
    paused.clear()
    assert [each[:2] for each in out.begin_decoding(10)] == [B]


class Reader:
    """Takes all that two partitions have by whatever way, while they are paused and resumed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.paused: set[TopicPartition] = set()
        self.out = ReadProgress({})
        self.out.paused = self.paused
        self.next = dict.fromkeys((A, B), 0)
        self.given = defaultdict[TopicPartition, list[int]](list)

    def fetch(self) -> list[PartitionRecords]:
        found = []
        for where in sorted(self.next.keys() - self.paused):
            size = self.random.randrange(1, 6)
            found.append(part(where, self.next[where], size))
            self.next[where] += size
        return found

    def give(self, parts: list[PartitionRecords]) -> None:
        for each in parts:
            self.given[TopicPartition(*each[:2])] += each.offsets()

    def turn(self) -> None:
        """What a poll does, or who pauses beside it."""
        step = self.random.choice(("pause", "pause", "poll", "stream", "records", "decode", "back"))
        count = self.random.randrange(1, 9)
        if step == "pause":
            self.paused.symmetric_difference_update({self.random.choice((A, B))})
            self.out.pause(self.paused)
        elif step == "records":
            for each in islice(self.out.records(), count):
                self.given[TopicPartition(each.topic, each.partition)].append(each.offset)
        elif step == "decode":
            self.decode(count)
        else:
            found = self.out.take(count)
            if step == "back":
                self.paused.symmetric_difference_update({self.random.choice((A, B))})
                self.out.take_back(found)
            elif step == "poll":
                self.give(found)
            else:
                self.out.add(found)

    def decode(self, count: int) -> None:
        if not self.out.begin_decoding(count):
            self.out.hold(self.fetch())
        found = self.out.begin_decoding(count)
        self.paused.symmetric_difference_update({self.random.choice((A, B))})
        wanted = self.out.end_decoding()
        self.out.add([each for each in found if TopicPartition(*each[:2]) in wanted])

    def check(self) -> None:
        """Of a partition all lies in order, behind what was given of it, and nothing is missing."""
        out = self.out
        begun = [] if out._begun is None else [out._begun.part]
        consumed = out.returned()
        for where in (A, B):
            lies = [*begun, *out._parts, *out._decoding, *out._undecoded]
            firsts = [each.records[0].offset for each in lies if each[:2] == where]
            assert all(one < two for one, two in pairwise(firsts)), firsts
            assert self.given[where] == list(range(consumed.get(where, self.next[where])))


@pytest.mark.parametrize("seed", range(30))
def test_what_lies_here_of_a_partition_is_in_order_whatever_is_done_with_it(seed: int) -> None:
    reader = Reader(seed)
    for _ in range(200):
        reader.turn()
        reader.check()
    reader.paused.clear()
    reader.give(reader.out.take(10_000))
    reader.out.add(reader.out.begin_decoding(10_000))
    reader.out.end_decoding()
    reader.give(reader.out.take(10_000))
    reader.check()
    assert reader.out.returned() == {}
