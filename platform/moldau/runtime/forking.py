"""Starts children with a fork server: the same as `start_child`, but in milliseconds.

    server = ForkServer(["moldau.connect.task.life"])
    child = await server.start_child("moldau.connect.task")

The first child, or `prepare`, starts the server. If the server cannot start, or refuses, a new
interpreter is started instead, and `on_refused` is called with the reason, once for each reason.

Invariants: a child ends when this process ends (`moldau.runtime.children`), even if its server has
ended; an end is reported once. A child's exit code is unknown if the server ended first.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, cast

from moldau.runtime.children import LINE_LIMIT_BYTES, Child, start_child

MODULE: Final = "moldau.runtime.fork_server"
UNKNOWN: Final = 255
_READ_BYTES: Final = 65_536
_FULL_S: Final = 0.01


class ForkRefused(OSError):
    """The server has not created a child."""


class ForkedChild(Child):
    """A child of the server."""

    def __init__(self, server: ForkServer, pid: int, output: _Output, pipe: _Pipe) -> None:
        self._server = server
        self._pid = pid
        self._output = output
        self._pipe = pipe
        self._has_closed = False
        self._is_orphan = False
        self.ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def exit_code(self) -> int | None:
        return self.ended.result() if self.ended.done() else None

    def send(self, line: bytes) -> None:
        self._pipe.send(line + b"\n")

    async def read_line(self) -> bytes | None:
        line = await self._output.reader.readline()
        if line.endswith(b"\n"):
            return line[:-1]
        self._has_closed = True
        self._end_if_unknown()
        self.close()
        return None

    def kill(self) -> None:
        if self.ended.done():
            return
        if self._is_orphan:
            with suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
        else:
            self._server.kill(self._pid)

    def close(self) -> None:
        """Close both pipes, which ends a child that still runs."""
        self._pipe.close()
        self._output.close()

    def orphaned(self) -> None:
        """Note that the server has ended: now only the end of its output shows the child's end."""
        self._is_orphan = True
        self._end_if_unknown()

    def _end_if_unknown(self) -> None:
        if self._is_orphan and self._has_closed and not self.ended.done():
            self.ended.set_result(UNKNOWN)

    async def wait(self) -> int:
        return await asyncio.shield(self.ended)


class _Output(asyncio.StreamReaderProtocol):
    """The reading end of a child's standard output."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader(limit=LINE_LIMIT_BYTES)
        self._pipe_transport: asyncio.BaseTransport | None = None
        super().__init__(self.reader)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._pipe_transport = transport
        super().connection_made(transport)

    def close(self) -> None:
        if self._pipe_transport is not None:
            self._pipe_transport.close()


class _Pipe(asyncio.BaseProtocol):
    """The writing end of a child's standard input."""

    _transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class ForkServer:
    """A fork server and its children; it belongs to one event loop."""

    def __init__(
        self, modules: Sequence[str], on_refused: Callable[[str], None] = lambda why: None
    ) -> None:
        self._modules = list(modules)
        self._on_refused = on_refused
        self._told: set[str] = set()
        self._control: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[int]] = {}
        self._children: dict[int, ForkedChild] = {}
        self._orphans: list[ForkedChild] = []
        """The children of servers that have ended."""
        self._early: dict[int, int] = {}
        """The exit codes that were reported before the child object existed."""
        self._text = b""
        self._lock = asyncio.Lock()

    async def prepare(self, imports: Sequence[str] = ()) -> None:
        """Start the server now, if there is none. Return when it has imported its modules and
        these, so that the next child starts at once; also return if that is not possible."""
        number = next(self._numbers)
        with suppress(OSError):
            await self._ask(number, {"import": number, "imports": list(imports)})

    async def start_child(self, module: str, imports: Sequence[str] = ()) -> Child:
        """Run `main` of `module.__main__` in a child. Raise OSError if none can be started. The
        server first imports `imports`, for this child and later ones."""
        try:
            return await self._forked(module, imports)
        except OSError as error:
            why = str(error)
            if why not in self._told:
                self._told.add(why)
                self._on_refused(why)
            return await start_child(module)

    async def _connected(self) -> socket.socket:
        async with self._lock:
            if self._control is None:
                await self._start()
            assert self._control is not None
            return self._control

    async def _start(self) -> None:
        if not (hasattr(os, "fork") and hasattr(socket, "send_fds")):
            raise ForkRefused("this system has no fork")
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    MODULE,
                    str(theirs.fileno()),
                    *self._modules,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise
        ours.setblocking(False)
        self._control, self._text = ours, b""
        asyncio.get_running_loop().add_reader(ours, self._read, ours)

    async def _forked(self, module: str, imports: Sequence[str]) -> ForkedChild:
        read_in, write_in = os.pipe()
        read_out, write_out = os.pipe()
        number = next(self._numbers)
        pid: int | None = None
        try:
            order = {"fork": number, "module": module, "imports": list(imports)}
            pid = await self._ask(number, order, [read_in, write_out])
        finally:
            if pid is None:
                os.close(write_in)
                os.close(read_out)
            os.close(read_in)
            os.close(write_out)
        return await self._made(pid, write_in, read_out)

    async def _ask(
        self, number: int, order: dict[str, Any], descriptors: Sequence[int] = ()
    ) -> int:
        """Return the process id of a fork. Raise OSError if the server refuses or has ended."""
        control = await self._connected()
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send(control, order, descriptors)
            pid: int = await answer
            return pid
        finally:
            self._asked.pop(number, None)

    async def _made(self, pid: int, write_in: int, read_out: int) -> ForkedChild:
        loop = asyncio.get_running_loop()
        _, output = await loop.connect_read_pipe(_Output, os.fdopen(read_out, "rb", 0))
        _, pipe = await loop.connect_write_pipe(_Pipe, os.fdopen(write_in, "wb", 0))
        child = self._children[pid] = ForkedChild(self, pid, output, pipe)
        code = self._early.pop(pid, None)
        if code is not None:
            self._end(pid, code)
        elif self._control is None:
            child.orphaned()
        return child

    async def _send(
        self, control: socket.socket, order: dict[str, Any], descriptors: Sequence[int] = ()
    ) -> None:
        line = json.dumps(order).encode() + b"\n"
        while True:
            try:
                socket.send_fds(control, [line], list(descriptors))
                return
            except BlockingIOError:
                await asyncio.sleep(_FULL_S)

    def kill(self, pid: int) -> None:
        """Send SIGKILL to a child; do nothing if it has ended."""
        if self._control is not None:
            with suppress(OSError):
                self._control.send(json.dumps({"kill": pid}).encode() + b"\n")

    def _read(self, control: socket.socket) -> None:
        try:
            read = control.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            read = b""
        if not read:
            self._lost()
            return
        *lines, self._text = (self._text + read).split(b"\n")
        for line in lines:
            self._hear(json.loads(line))

    def _hear(self, told: dict[str, Any]) -> None:
        if "ended" in told:
            self._end(told["ended"], told["code"])
            return
        numbers = [told[name] for name in ("forked", "imported", "refused") if name in told]
        answer = self._asked.get(numbers[0])
        if answer is None or answer.done():
            if "forked" in told:
                self.kill(told["pid"])  # its caller has gone
            return
        if "refused" in told:
            answer.set_exception(ForkRefused(told["why"]))
        else:
            answer.set_result(told.get("pid", 0))

    def _end(self, pid: int, code: int) -> None:
        child = self._children.pop(pid, None)
        if child is None:
            self._early[pid] = code
        elif not child.ended.done():
            child.ended.set_result(code)

    def _lost(self) -> None:
        """Handle the end of the server. Its children still run: their pipes are ours."""
        self._release()
        self._refuse_all()
        for child in self._children.values():
            child.orphaned()
        self._orphans += self._children.values()
        self._children.clear()

    def _refuse_all(self) -> None:
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(ForkRefused("the fork server has ended"))

    def _release(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
            self._control = None

    async def aclose(self) -> None:
        """End the server, and the children that still run."""
        self._release()
        self._refuse_all()
        for child in [*self._children.values(), *self._orphans]:
            child.orphaned()
            child.close()
        if self._process is not None:
            await self._process.wait()
            self._process = None
