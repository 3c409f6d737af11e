"""Nothing overtakes: large slices go past the transport only when it has nothing of its own."""

from __future__ import annotations

from typing import Any, cast

from moldau.broker.network.direct import SLICE_BYTES_MIN
from moldau.broker.network.reactor import Reactor
from moldau.broker.network.sender import Sender
from moldau.metrics import Counter
from tests.broker.network.full_socket import CONTENT, Socket
from tests.broker.network.wire import Wire


class Large:
    """A slice that is large enough; its file repeats CONTENT."""

    position = 0

    def __len__(self) -> int:
        return SLICE_BYTES_MIN

    def read_at(self, start: int, size: int) -> bytes:
        return bytes(size)

    def fileno(self) -> int | None:
        return 5


class Room:
    """What a sender needs of the reactor."""

    def __init__(self) -> None:
        self.waiting: dict[int, Any] = {}

    def wait_for_room(self, fileno: int, callback: Any) -> None:
        self.waiting[fileno] = callback

    def wait_no_more(self, fileno: int) -> None:
        self.waiting.pop(fileno, None)


class ClosableSocket(Socket):
    """One that may be closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


def sender(socket: Socket, wire: Wire, room: Room) -> Sender:
    made = Sender(cast(Reactor, room), Counter(), 256 << 10, lambda: None)
    made.start(wire, lambda transport: socket)
    return made


def test_slices_wait_for_what_the_transport_still_has() -> None:
    socket, wire = Socket(lambda: len(CONTENT)), Wire()
    sending = sender(socket, wire, Room())
    wire.unsent_bytes = 1
    sending.outbox.add([b"header", Large()])
    sending.flush()

    assert not socket.data
    assert len(wire.written) == SLICE_BYTES_MIN + 6


def test_slices_go_past_an_empty_transport_and_wait_for_room() -> None:
    rooms = iter([6, 1000, 0, 500, 0])
    socket, wire, room = ClosableSocket(lambda: next(rooms)), Wire(), Room()
    sending = sender(socket, wire, room)
    sending.outbox.add([b"header", Large()])
    sending.flush()

    states = [sending.is_blocked]
    assert socket.data == b"header" + CONTENT[:1000]
    room.waiting[2]()
    states.append(sending.is_blocked)
    assert not room.waiting
    sending.flush()
    assert [*states, sending.is_blocked] == [True, False, True]
    assert socket.data == b"header" + CONTENT[:1500]
    assert sending.unsent_bytes == SLICE_BYTES_MIN - 1500
    assert not wire.written
    sending.stop()
    assert socket.is_closed
    assert not room.waiting
