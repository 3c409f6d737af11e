"""Frames come out whole, whichever way their bytes come in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import MalformedMessage
from moldau.protocol.framing import (
    GROWTH,
    GROWTH_OF_TRUSTED,
    MAX_FRAME_BYTES,
    PRIVATE_BUFFER_BYTES,
    FrameReader,
    Tenancy,
    shared_buffer,
)
from tests.records.memory import peak_stays_below


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def feed(reader: FrameReader, data: bytes, step: int = 1 << 30) -> list[bytes]:
    """Hands `data` over as a socket would, at most `step` bytes at a time; copies the frames."""
    frames = []
    position = 0
    while position < len(data):
        buffer = reader.get_buffer()
        assert len(buffer) > 0
        piece = data[position : position + min(step, len(buffer))]
        buffer[: len(piece)] = piece
        frames += [bytes(frame) for frame in reader.received(len(piece))]
        position += len(piece)
    return frames


def feed_pieces(reader: FrameReader, pieces: Iterable[bytes]) -> list[bytes]:
    return [frame for piece in pieces for frame in feed(reader, piece)]


BODIES = (b"", b"a", b"second", b"x" * 300, b"", b"last")


def test_every_pair_of_split_points() -> None:
    data = framed(*BODIES[:4])
    for first in range(0, len(data), 3):
        for second in range(first, len(data), 7):
            reader = FrameReader(shared_buffer())
            pieces = (data[:first], data[first:second], data[second:])
            assert feed_pieces(reader, pieces) == list(BODIES[:4])
            assert reader.is_between_frames


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7, 64, 1000])
@pytest.mark.parametrize("size", [5, 8, 64, 4096])
def test_steps_and_buffers_of_all_sizes(step: int, size: int) -> None:
    reader = FrameReader(memoryview(bytearray(size)))
    assert feed(reader, framed(*BODIES), step) == list(BODIES)
    assert reader.is_between_frames


@given(
    st.lists(st.binary(max_size=400), max_size=8),
    st.integers(1, 500),
    st.integers(5, 300),
)
def test_any_frames_in_any_steps(bodies: list[bytes], step: int, size: int) -> None:
    reader = FrameReader(memoryview(bytearray(size)))
    assert feed(reader, framed(*bodies), step) == bodies


def test_connections_share_a_buffer_without_mixing() -> None:
    shared = shared_buffer()
    readers = [FrameReader(shared) for _ in range(3)]
    # Of different sizes, so that a cut prefix of one is not that of another.
    streams = [framed(bytes([65 + number]) * (50 << 3 * number), b"tail") for number in range(3)]
    got: list[list[bytes]] = [[], [], []]
    for at in range(0, max(map(len, streams)), 3):
        for number, reader in enumerate(readers):
            got[number] += feed(reader, streams[number][at : at + 3])
    assert got == [[bytes([65 + number]) * (50 << 3 * number), b"tail"] for number in range(3)]


def test_whole_frames_stay_in_the_shared_buffer_and_cut_ones_do_not() -> None:
    shared = shared_buffer()
    reader = FrameReader(shared)
    data = framed(b"whole", b"cut off")
    buffer = reader.get_buffer()
    assert buffer.obj is shared.obj
    buffer[: len(data) - 2] = data[:-2]
    (whole,) = reader.received(len(data) - 2)
    assert whole.obj is shared.obj
    rest = reader.get_buffer()
    assert rest.obj is not shared.obj
    assert len(rest) == 2
    rest[:] = data[-2:]
    (cut,) = reader.received(2)
    shared[:] = bytes(len(shared))
    assert bytes(cut) == b"cut off"
    assert reader.is_between_frames
    assert reader.get_buffer().obj is shared.obj


def test_a_size_prefix_that_is_cut() -> None:
    reader = FrameReader(shared_buffer())
    assert feed(reader, b"\0\0") == []
    assert not reader.is_between_frames
    assert feed(reader, b"\0\3abc\0") == [b"abc"]
    assert not reader.is_between_frames
    assert feed(reader, b"\0\0\1z") == [b"z"]


def test_a_claimed_size_allocates_nothing() -> None:
    def claim() -> list[FrameReader]:
        readers = [FrameReader(memoryview(bytearray(64))) for _ in range(50)]
        for reader in readers:
            feed(reader, MAX_FRAME_BYTES.to_bytes(4, "big") + b"x" * 60)
        return readers

    peak_stays_below(50 * (PRIVATE_BUFFER_BYTES + 2048), claim)
    assert not any(reader.is_between_frames for reader in claim())


@pytest.mark.parametrize("growth", [GROWTH, GROWTH_OF_TRUSTED])
def test_a_private_buffer_grows_with_what_came(growth: int) -> None:
    body = bytes(range(256)) * 4096 * 4
    reader = FrameReader(memoryview(bytearray(64)), growth=growth)
    data = framed(body)
    position, largest = 0, 0
    frames: list[bytes] = []
    while position < len(data):
        buffer = reader.get_buffer()
        largest = max(largest, len(buffer))
        assert position + len(buffer) <= max(PRIVATE_BUFFER_BYTES, growth * position, 64)
        piece = data[position : position + len(buffer)]
        buffer[: len(piece)] = piece
        frames += map(bytes, reader.received(len(piece)))
        position += len(piece)
    assert frames == [body]
    assert largest < len(data)


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_size_is_refused(size: int) -> None:
    reader = FrameReader(shared_buffer())
    with pytest.raises(MalformedMessage, match="negative frame size"):
        feed(reader, size.to_bytes(4, "big", signed=True))


def test_frames_before_a_bad_one_are_still_given() -> None:
    reader = FrameReader(shared_buffer(), max_bytes=10)
    data = framed(b"0123456789", b"0123456789a")
    reader.get_buffer()[: len(data)] = data
    frames = reader.received(len(data))
    assert bytes(next(frames)) == b"0123456789"
    with pytest.raises(MalformedMessage, match="frame too large") as raised:
        next(frames)
    assert raised.value.context == {"size": 11, "allowed": 10}


def test_the_limit_can_be_raised_after_login() -> None:
    reader = FrameReader(shared_buffer(), max_bytes=4)
    assert feed(reader, framed(b"1234")) == [b"1234"]
    reader.max_bytes = 5
    assert feed(reader, framed(b"12345")) == [b"12345"]


def put(reader: FrameReader, data: bytes) -> list[Any]:
    """One read; the frames as they lie there."""
    buffer = reader.get_buffer()
    buffer[: len(data)] = data
    return list(reader.received(len(data)))


def test_a_cut_frame_stays_in_the_shared_buffer_while_nobody_else_reads() -> None:
    shared = memoryview(bytearray(64))
    reader = FrameReader(shared, tenancy=Tenancy())
    data = framed(b"whole", b"cut in two", b"next")
    (whole,) = put(reader, data[:14])
    assert whole == b"whole"
    assert not reader.is_between_frames
    assert reader.get_buffer().obj is shared.obj
    second, third = put(reader, data[14:])
    assert (second, third) == (b"cut in two", b"next")
    assert second.obj is shared.obj
    assert reader.is_between_frames


def test_a_cut_frame_moves_out_when_somebody_else_reads() -> None:
    shared, tenancy = memoryview(bytearray(64)), Tenancy()
    first, second = (FrameReader(shared, tenancy=tenancy) for _ in range(2))
    data = framed(b"cut in two")
    assert put(first, data[:9]) == []
    assert [bytes(frame) for frame in put(second, framed(b"x" * 60))] == [b"x" * 60]
    assert tenancy.holder is None
    assert first.get_buffer().obj is not shared.obj
    assert len(first.get_buffer()) == len(data) - 9, "and never a byte of the next frame"
    (frame,) = put(first, data[9:])
    assert frame == b"cut in two"
    assert first.is_between_frames


def test_a_cut_frame_without_room_moves_to_the_front_when_those_before_were_used() -> None:
    shared = memoryview(bytearray(32))
    reader = FrameReader(shared, tenancy=Tenancy())
    data = framed(b"a" * 20, b"b" * 20)
    (before,) = put(reader, data[:30])
    assert before == b"a" * 20, "valid until the next `get_buffer`"
    (after,) = put(reader, data[30:])
    assert after == b"b" * 20
    assert after.obj is shared.obj


def test_a_frame_larger_than_the_shared_buffer_never_waits_in_it() -> None:
    tenancy = Tenancy()
    reader = FrameReader(memoryview(bytearray(32)), tenancy=tenancy)
    put(reader, framed(b"x" * 100)[:30])
    assert tenancy.holder is None
    assert not reader.is_between_frames


@given(
    st.lists(st.lists(st.binary(max_size=90), max_size=5), min_size=3, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 120)), max_size=40),
    st.integers(8, 128),
)
def test_connections_in_any_turns_never_mix(
    bodies: list[list[bytes]], turns: list[tuple[int, int]], size: int
) -> None:
    shared, tenancy = memoryview(bytearray(size)), Tenancy()
    readers = [FrameReader(shared, tenancy=tenancy) for _ in bodies]
    left = [framed(*each) for each in bodies]
    got: list[list[bytes]] = [[] for _ in bodies]
    ends = [(number, 1 << 30) for number in range(3) for _ in range(200)]
    for number, step in [*turns, *ends]:
        if not left[number]:
            continue
        reader = readers[number]
        buffer = reader.get_buffer()
        piece = left[number][: min(step, len(buffer))]
        buffer[: len(piece)] = piece
        left[number] = left[number][len(piece) :]
        got[number] += [bytes(frame) for frame in reader.received(len(piece))]
    assert got == bodies
    assert all(reader.is_between_frames for reader in readers)
