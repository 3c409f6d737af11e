"""A socket that takes a part of what is sent."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from moldau.broker.network.outbox import Buffer

CONTENT = Random(1).randbytes(5000)


class Socket:
    """Takes as much as it is told to, and then has no room."""

    def __init__(self, room: Callable[[], int]) -> None:
        self.room = room
        self.data = bytearray()

    def fileno(self) -> int:
        return 2

    def send(self, data: Buffer, /) -> int:
        taken = bytes(data[: self._take()])
        self.data += taken
        return len(taken)

    def send_file(self, fileno: int, position: int, size: int, /) -> int:
        taken = CONTENT[position : position + min(size, self._take())]
        self.data += taken
        return len(taken)

    def close(self) -> None:
        raise AssertionError("not its business")

    def _take(self) -> int:
        room = self.room()
        if not room:
            raise BlockingIOError
        return room
