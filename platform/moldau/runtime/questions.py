"""Questions of a parent to a child that it has started, over a socket that only these two have.

A parent that starts a `NodeProcess` with `ASKED` in its environment holds one end of a pair of
sockets and the child inherits the other: no port, no path and no login, and it ends with either
process. A question is one line, its answer is bytes in pieces.

Invariants: an answer belongs to its question, also after one that was given up. The child answers
one question at a time, in the order in which they came.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from moldau.runtime.interface import Runtime

VARIABLE: Final = "_MOLDAU_QUESTIONS"
"""The child's end of the sockets, as the number of its descriptor."""
ASKED: Final = {VARIABLE: ""}
"""The environment of a child that is asked; its start fills the number in."""
_HEAD: Final = struct.Struct(">QI")
_QUESTION_BYTES_MAX: Final = 1 << 16


class NoAnswer(Exception):
    """The child has ended, or does not answer in time."""


class Questions:
    """The parent's side of one child's life; `open_questions` makes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._waiting: dict[int, tuple[list[bytes], asyncio.Future[bytes]]] = {}
        self._count = 0
        self._reader = reader
        self._writer = writer
        self._is_over = False

    async def ask(self, question: str, timeout_s: float) -> bytes:
        """Return the answer. Raise NoAnswer."""
        if self._is_over:
            raise NoAnswer("it has ended")
        self._count += 1
        number = self._count
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = [], answer
        try:
            self._writer.write(f"{number} {question}\n".encode())
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise NoAnswer("it does not answer in time") from None
        finally:
            del self._waiting[number]

    async def run(self) -> None:
        """Read the answers until the child has ended."""
        try:
            while True:
                number, size = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
                piece = await self._reader.readexactly(size)
                if number not in self._waiting:
                    continue  # it was given up
                pieces, answer = self._waiting[number]
                pieces.append(piece)
                if not size and not answer.done():
                    answer.set_result(b"".join(pieces))
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._is_over = True
            self._writer.close()
            for _, answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(NoAnswer("it has ended"))


async def open_questions(runtime: Runtime, connection: socket.socket) -> Questions:
    """Ask by the parent's end of the sockets, until it or the runtime is closed."""
    questions = Questions(*await asyncio.open_connection(sock=connection))
    runtime.spawn(questions.run(), name="answers of a child")
    return questions


def is_asked() -> bool:
    """Whether the parent of this process asks it."""
    return VARIABLE in os.environ


async def answer_parent(answer: Callable[[str], AsyncIterator[bytes]]) -> None:
    """Answer the questions of the parent until it ends."""
    connection = socket.socket(fileno=int(os.environ.pop(VARIABLE)))
    reader, writer = await asyncio.open_connection(sock=connection, limit=_QUESTION_BYTES_MAX)
    with suppress(OSError):
        try:
            while line := await reader.readline():
                number, _, question = line.decode().rstrip("\n").partition(" ")
                async for piece in answer(question):
                    if piece:
                        writer.write(_HEAD.pack(int(number), len(piece)) + piece)
                        await writer.drain()
                writer.write(_HEAD.pack(int(number), 0))
                await writer.drain()
        finally:
            writer.close()
