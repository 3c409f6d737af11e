"""What leaves, in which pieces: the order and the bytes never depend on the pieces."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.network import direct
from moldau.broker.network.direct import send_directly
from moldau.broker.network.outbox import Outbox, Part
from tests.broker.network.full_socket import CONTENT, Socket


class Piece:
    """A slice of CONTENT; `missing` bytes of the file are not there any more."""

    def __init__(self, position: int, size: int, *, missing: int = 0, fileno: int | None = 1):
        self.position = position
        self.size = size
        self.missing = missing
        self.number = fileno
        self.reads: list[int] = []

    def __len__(self) -> int:
        return self.size

    def read_at(self, start: int, size: int) -> bytes:
        self.reads.append(size)
        end = min(start + size, self.size - self.missing)
        return CONTENT[self.position + start : self.position + end]

    def fileno(self) -> int | None:
        return self.number

    def whole(self) -> bytes:
        return CONTENT[self.position : self.position + self.size]


def whole(parts: list[Part]) -> bytes:
    return b"".join(part.whole() if isinstance(part, Piece) else bytes(part) for part in parts)  # type: ignore[arg-type]


buffers = st.binary(max_size=40)
pieces = st.builds(Piece, st.integers(0, 4000), st.integers(1, 900))
answers = st.lists(st.lists(st.one_of(buffers, pieces), min_size=1, max_size=6), max_size=6)


@given(answers, st.integers(1, 700))
def test_all_bytes_leave_in_order_in_chunks_of_about_the_size(
    added: list[list[Part]], size: int
) -> None:
    outbox, sent = Outbox(), bytearray()
    for parts in added:
        outbox.add(parts)
        before = outbox.size
        taken = outbox.take(size)
        count = sum(map(len, taken))
        assert outbox.size == before - count
        assert count <= size + size // 4 + 40, "one buffer over it at most"
        sent += b"".join(taken)
    while outbox.size:
        taken = outbox.take(size)
        assert any(map(len, taken))
        sent += b"".join(taken)

    assert sent == whole([part for parts in added for part in parts])
    assert outbox.held_bytes == 0


@given(answers, st.randoms(use_true_random=False), st.booleans())
def test_all_bytes_leave_in_order_when_slices_go_past_the_transport(
    added: list[list[Part]], random: Random, tight: bool
) -> None:
    outbox = Outbox()
    for parts in added:
        outbox.add(parts)
    socket = Socket(lambda: random.choice((0, 1, 7, 300)) if tight else 10_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct, "SLICE_BYTES_MIN", 200)
        while outbox.size:
            before = outbox.size
            blocked = send_directly(outbox, socket, 500)
            # The transport takes over where the slices are small.
            if not blocked and outbox.size == before:
                socket.data += b"".join(outbox.take(100))

    assert socket.data == whole([part for parts in added for part in parts])
    assert outbox.held_bytes == 0


def test_a_slice_is_not_read_before_its_turn() -> None:
    outbox, piece = Outbox(), Piece(0, 1000)
    outbox.add([b"header", piece])

    assert [len(part) for part in outbox.take(100)] == [6, 94]
    assert piece.reads == [94]
    assert outbox.held_bytes == 0


def test_the_last_bytes_of_a_slice_leave_with_those_before_them() -> None:
    outbox, piece = Outbox(), Piece(0, 1000)
    outbox.add([bytes(60), piece])

    assert sum(map(len, outbox.take(1000))) == 1060
    assert piece.reads == [1000]


def test_a_slice_that_has_become_shorter_is_an_error() -> None:
    outbox = Outbox()
    outbox.add([b"header", Piece(0, 1000, missing=1)])

    with pytest.raises(OSError, match="1 bytes early"):
        outbox.take(2000)


def test_a_file_that_has_become_shorter_is_an_error_past_the_transport_too() -> None:
    outbox = Outbox()
    outbox.add([Piece(len(CONTENT) - 10, 1 << 20)])

    with pytest.raises(OSError, match="bytes early"):
        send_directly(outbox, Socket(lambda: 1 << 20), 1 << 21)


def test_small_slices_and_those_without_a_descriptor_are_left_to_the_transport() -> None:
    outbox = Outbox()
    outbox.add([b"header", Piece(0, 100)])
    assert not outbox.leads_to_slice(101)
    assert outbox.leads_to_slice(100)
    outbox.clear()
    outbox.add([b"header", Piece(0, 100, fileno=None)])
    assert not outbox.leads_to_slice(100)
    outbox.clear()
    assert not outbox.leads_to_slice(0)
    outbox.add([b"one", b"two"])
    assert not outbox.leads_to_slice(0)


def test_what_has_left_is_not_kept_alive() -> None:
    outbox = Outbox()
    outbox.add([bytes(10)] * 200)
    for _ in range(100):
        outbox.take(10)

    assert outbox.size == outbox.held_bytes == 1000
    outbox.clear()
    assert outbox.size == outbox.held_bytes == 0
