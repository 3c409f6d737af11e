"""What of fetched bytes is given out: nothing below the position, aborted, or twice."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.client.consumer import records as fetched
from moldau.client.consumer.records import FetchedRecords
from moldau.errors import CorruptRecord
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.fetch import AbortedTransaction
from moldau.records import (
    NO_PRODUCER,
    Codec,
    ControlType,
    Producer,
    encode_batch,
    encode_control_batch,
    walk,
)
from tests.records.memory import peak_stays_below

WHERE = TopicPartition("t", 3)


def batch(
    offset: int, count: int, producer: Producer = NO_PRODUCER, codec: Codec | None = None
) -> bytes:
    """Those with an odd offset are not compressed: they are opened many at a time."""
    if codec is None:
        codec = Codec.NONE if offset % 2 else Codec.LZ4
    rows = [(offset + index, None, b"%d" % (offset + index), ()) for index in range(count)]
    return bytes(encode_batch(rows, offset, codec=codec, producer=producer))


def taken(
    data: bytes, position: int = 0, aborted: list[AbortedTransaction] | None = None, most: int = 100
) -> list[int]:
    """The offsets of all that is given out, in takes of `most`."""
    fetched = FetchedRecords(WHERE, position, data, aborted, 100)
    offsets: list[int] = []
    while (part := fetched.take(most, check_crc=True)) is not None:
        assert 0 < len(part.records) <= most
        assert (part.topic, part.partition, part.high_watermark) == ("t", 3, 100)
        offsets += [each.offset for each in part.records]
        assert part.next_offset == fetched.position
    assert fetched.position == fetched.end_offset
    assert taken_as_columns(data, position, aborted, most, by_turns=False) == offsets
    assert taken_as_columns(data, position, aborted, most, by_turns=True) == offsets
    return offsets


def taken_as_columns(
    data: bytes,
    position: int,
    aborted: list[AbortedTransaction] | None,
    most: int,
    *,
    by_turns: bool,
) -> list[int]:
    """The same as columns, or in turns as columns and as records."""
    fetched = FetchedRecords(WHERE, position, data, aborted, 100)
    offsets: list[int] = []
    while True:
        columns = fetched.take_columns(most, check_crc=True)
        if columns is not None:
            assert len(columns) > 0
            assert (columns.topic, columns.partition, columns.high_watermark) == ("t", 3, 100)
            assert columns.next_offset == fetched.position
            assert columns.values.tolist() == [b"%d" % each for each in columns.offsets]
            offsets += columns.offsets.tolist()
        part = fetched.take(most, check_crc=True) if by_turns else None
        if part is not None:
            offsets += part.offsets()
        if columns is None and part is None:
            break
    assert fetched.position == fetched.end_offset
    return offsets


@pytest.mark.parametrize("most", [1, 2, 3, 7, 100])
def test_records_come_in_order_in_portions(most: int) -> None:
    data = batch(0, 5) + batch(5, 1) + batch(7, 2) + batch(10, 4) + batch(15, 3) + batch(19, 4)
    expected = [*range(6), 7, 8, *range(10, 14), *range(15, 18), *range(19, 23)]
    assert taken(data, most=most) == expected


def test_small_batches_take_no_more_than_their_bytes() -> None:
    """A bound for what is fetched ahead would hold nothing otherwise."""
    data = b"".join(batch(offset, 1) for offset in range(1_000))

    def fetch() -> FetchedRecords:
        return FetchedRecords(WHERE, 0, data, None, 1_000)

    assert fetch().end_offset == 1_000
    peak_stays_below(len(data) // 20, fetch)


def test_what_is_taken_of_many_small_batches_is_not_copied_for_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a poll for many records holds the event loop, and its heartbeats, up for long."""
    copied = 0

    class Counted(list[Any]):
        def __add__(self, other: Any) -> Counted:
            nonlocal copied
            copied += len(self) + len(other)
            return Counted([*self, *other])

    def counted(data: bytes, position: int) -> Iterator[Any]:
        for each in walk(data, position):
            yield SimpleNamespace(
                header=each.header,
                consumed=lambda *where, each=each: Counted(each.consumed(*where)),
                end=each.end,
            )

    monkeypatch.setattr(fetched, "walk", counted)
    data = b"".join(batch(offset, 1, codec=Codec.LZ4) for offset in range(100))
    part = FetchedRecords(WHERE, 0, data, None, 100).take(99, check_crc=False)
    assert part is not None
    assert part.offsets() == list(range(99))
    assert copied <= 99


@pytest.mark.parametrize("position", [0, 3, 4, 5, 7, 10, 14])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_what_lies_before_the_position_is_left_out(position: int, codec: Codec) -> None:
    data = batch(0, 5, codec=codec) + batch(5, 5, codec=codec) + batch(10, 5, codec=codec)
    assert taken(data, position) == list(range(position, 15))
    assert taken(data, position, most=2) == list(range(position, 15))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("most", [1, 3, 100])
def test_batches_that_overlap_give_no_record_twice(most: int, codec: Codec) -> None:
    first, second, third = (batch(*each, codec=codec) for each in ((0, 5), (3, 5), (8, 2)))
    assert taken(first + first + second + first + third, most=most) == list(range(10))


def test_as_many_may_be_asked_for_as_one_likes() -> None:
    assert taken(batch(1, 2) + batch(3, 2), most=2**64) == [1, 2, 3, 4]


def test_a_batch_that_is_cut_short_ends_it_quietly() -> None:
    whole = batch(0, 3)
    assert taken(whole + batch(3, 3)[:-1]) == [0, 1, 2]
    assert FetchedRecords(WHERE, 0, whole[:-1], None, 0).end_offset == 0


def test_control_batches_are_never_seen_but_stepped_over() -> None:
    marker = encode_control_batch([(ControlType.COMMIT, b"\0\0\0\0\0\0")], 0, 3)
    fetched = FetchedRecords(WHERE, 0, batch(0, 3) + bytes(marker), None, 100)
    part = fetched.take(100, check_crc=True)
    assert part is not None
    assert len(part.records) == 3
    assert fetched.take(100, check_crc=True) is None
    assert fetched.position == 4


def test_aborted_transactions_are_skipped_up_to_their_marker() -> None:
    one, two = Producer(1, 0, 0, True), Producer(2, 0, 0, True)
    abort = bytes(
        encode_control_batch([(ControlType.ABORT, b"\0\0\0\0\0\0")], 0, 6, producer=Producer(1, 0))
    )
    data = batch(0, 2, one) + batch(2, 2, two) + batch(4, 2, one) + abort + batch(7, 2, one)
    aborted = [AbortedTransaction(producer_id=1, first_offset=0)]
    assert taken(data, 0, aborted) == [2, 3, 7, 8]
    assert taken(data, 0, []) == [0, 1, 2, 3, 4, 5, 7, 8]
    assert taken(data, 0, None) == [0, 1, 2, 3, 4, 5, 7, 8]


Step = tuple[int, ControlType | None]
"""A producer that writes two records, or ends its transaction."""
NO_TRANSACTION = 9
"""One that writes beside all transactions."""


def log_of(steps: list[Step]) -> tuple[bytes, list[AbortedTransaction], list[int]]:
    """The log, what a broker says of it (in the order of the markers), and the offsets of all that
    was committed or left open, by a plain model: whose fate is known when the marker comes."""
    data, offset = b"", 0
    began: dict[int, int] = {}
    written: dict[int, list[int]] = {}
    aborted, seen = [], []
    for producer_id, marker in steps:
        if producer_id == NO_TRANSACTION:
            data += batch(offset, 2)
            seen += [offset, offset + 1]
            offset += 2
            continue
        if marker is None:
            began.setdefault(producer_id, offset)
            written.setdefault(producer_id, []).extend((offset, offset + 1))
            data += batch(offset, 2, Producer(producer_id, 0, 0, True))
            offset += 2
            continue
        data += bytes(
            encode_control_batch(
                [(marker, b"\0\0\0\0\0\0")], 0, offset, producer=Producer(producer_id, 0)
            )
        )
        offset += 1
        first, offsets = began.pop(producer_id, None), written.pop(producer_id, [])
        if marker is ControlType.COMMIT:
            seen += offsets
        elif first is not None:
            aborted.append(AbortedTransaction(producer_id=producer_id, first_offset=first))
    seen += [each for offsets in written.values() for each in offsets]
    return data, aborted, sorted(seen)


def test_of_two_that_overlap_the_one_that_began_first_may_end_last() -> None:
    abort = ControlType.ABORT
    data, aborted, seen = log_of([(10, None), (11, None), (11, abort), (10, None), (10, abort)])
    assert [(each.producer_id, each.first_offset) for each in aborted] == [(11, 2), (10, 0)]
    assert (taken(data, 0, aborted), seen) == ([], [])


@given(
    steps=st.lists(
        st.tuples(
            st.integers(NO_TRANSACTION, 13),
            st.sampled_from([None, None, None, ControlType.ABORT, ControlType.COMMIT]),
        ),
        max_size=24,
    ),
    order=st.randoms(use_true_random=False),
    most=st.sampled_from([1, 3, 100]),
)
def test_what_was_aborted_is_never_given_out_however_transactions_overlap(
    steps: list[Step], order: Random, most: int
) -> None:
    data, aborted, seen = log_of(steps)
    assert taken(data, 0, aborted, most) == seen
    order.shuffle(aborted)
    assert taken(data, 0, aborted, most) == seen


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_damage_is_told_with_its_place_after_what_is_before_it(codec: Codec) -> None:
    bad = bytearray(batch(3, 3, codec=codec))
    bad[-1] ^= 1
    data = batch(0, 3, codec=codec) + bytes(bad) + batch(6, 1, codec=codec)
    fetched = FetchedRecords(WHERE, 0, data, None, 100)
    part = fetched.take(100, check_crc=True)
    assert part is not None
    assert [each.offset for each in part.records] == [0, 1, 2]
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="checksum does not match; seek past it") as caught:
            fetched.take(100, check_crc=True)
        assert caught.value.context["topic"] == "t"
        assert caught.value.context["position"] == 3


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_damage_below_the_position_is_of_no_matter(codec: Codec) -> None:
    bad = bytearray(batch(0, 3, codec=codec))
    bad[-1] ^= 1
    assert taken(bytes(bad) + batch(3, 3, codec=codec), 3) == [3, 4, 5]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_without_the_check_checksums_do_not_matter(codec: Codec) -> None:
    data = bytearray(batch(0, 3, codec=codec))
    data[17] ^= 1
    part = FetchedRecords(WHERE, 0, bytes(data), None, 0).take(9, check_crc=False)
    assert part is not None
    assert len(part.records) == 3


def test_bytes_that_are_no_batch_are_refused_at_once() -> None:
    with pytest.raises(CorruptRecord):
        FetchedRecords(WHERE, 0, b"\0" * 100, None, 0)
