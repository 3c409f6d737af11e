"""Child processes that exchange lines with their parent, with a few thread tools for them.

The parent starts a Python module as a child (`start_child`) and reads the lines that it writes. The
child calls `open_parent_pipe`: from then on its standard output is only the parent's pipe, and the
program's other output goes to standard error.

Invariants: a child whose parent has ended ends at once, without any clean-up (`end_at_once`), as
with kill -9: another process may do its work already. A child is a new interpreter, or the fork of
a process with nothing but modules (`moldau.runtime.fork_server`), so it inherits no socket, lock or
event loop. It has a session of its own: only the parent gets a Ctrl-C in the terminal, and ends its
children in order.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from queue import Empty
from typing import BinaryIO, Final, Generic, TypeVar

from moldau.runtime.threads import Queue, here

T = TypeVar("T")

LINE_LIMIT_BYTES: Final = 256 << 20
_KILLED: Final = 137


class Child(ABC):
    """A running child, from the parent's view. Belongs to the parent's event loop."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process id of the child."""

    @property
    @abstractmethod
    def exit_code(self) -> int | None:
        """The exit code; None while it runs, and negative if a signal of that number ended it."""

    @abstractmethod
    def send(self, line: bytes) -> None:
        """Write one line, given without its end. It is lost if the child has ended."""

    @abstractmethod
    async def read_line(self) -> bytes | None:
        """Return the next line without its end; None when the child has closed its output."""

    @abstractmethod
    def kill(self) -> None:
        """Send SIGKILL; do nothing if the child has ended."""

    @abstractmethod
    async def wait(self) -> int:
        """Wait for the end of the child and return its exit code."""


class FreshChild(Child):
    """A child with a new interpreter."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        return self._process.returncode

    def send(self, line: bytes) -> None:
        stdin = self._process.stdin
        if stdin is not None and not stdin.is_closing():
            stdin.write(line + b"\n")

    async def read_line(self) -> bytes | None:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        return line[:-1] if line.endswith(b"\n") else None

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    async def wait(self) -> int:
        return await self._process.wait()


async def start_child(
    module: str, arguments: Sequence[str] = (), environment: Mapping[str, str] | None = None
) -> Child:
    """Run `python -m module` with this interpreter. Raise OSError if it cannot be started."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_LIMIT_BYTES,
        env=None if environment is None else dict(environment),
        start_new_session=True,
    )
    return FreshChild(process)


class Mailbox(Generic[T]):
    """A queue from other threads to one thread."""

    def __init__(self) -> None:
        self._queue: Queue[T] = here().queue()

    def put(self, item: T) -> None:
        """Add an item; any thread may call this."""
        self._queue.put(item)

    def take(self, timeout_s: float | None) -> T | None:
        """Return the next item; None if there is none in time. No timeout means no limit."""
        try:
            return self._queue.get(timeout=None if timeout_s is None else max(0.0, timeout_s))
        except Empty:
            return None


class Gate:
    """Lines that wait, in order, until there is a function to send them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._send: Callable[[bytes], object] | None = None

    def send(self, line: bytes) -> None:
        """Send a line, or keep it while the gate is closed; any thread may call this."""
        with self._lock:
            if self._send is None:
                self._waiting.append(line)
            else:
                self._send(line)

    def open(self, send: Callable[[bytes], object]) -> None:
        """Send the waiting lines, and all later ones, with `send`."""
        with self._lock:
            for line in self._waiting:
                send(line)
            self._waiting.clear()
            self._send = send


class ParentPipe:
    """The child's side: sends lines to the parent, and reads the parent's lines on a thread."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()

    def send(self, line: bytes) -> None:
        """Send a line; any thread may call this. If the parent has ended, this process ends."""
        with self._lock:
            try:
                self._sink.write(line + b"\n")
                self._sink.flush()
            except OSError:
                end_at_once(_KILLED)

    def listen(self, on_line: Callable[[bytes], None]) -> None:
        """Call `on_line` with each line, on another thread; end with the parent."""

        def run() -> None:
            for line in self._source:
                on_line(line.rstrip(b"\n"))
            end_at_once(_KILLED)

        start_thread(run, "parent")


def open_parent_pipe() -> ParentPipe:
    """Use standard input and output for the parent only; call this once, before anything else."""
    sink = os.fdopen(os.dup(1), "wb")
    source = os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return ParentPipe(source, sink)


def open_parent_socket(path: str) -> ParentPipe:
    """Return a pipe to the parent over a Unix socket, for a child that another program has started;
    its standard output stays as it is."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    return ParentPipe(connection.makefile("rb"), connection.makefile("wb"))


def end_at_once(code: int) -> None:
    """End the process without any clean-up."""
    os._exit(code)


def start_thread(run: Callable[[], None], name: str) -> threading.Thread:
    """Run `run` on a daemon thread, which does not keep the process from ending."""
    return here().start(run, name)


def process_environment() -> dict[str, str]:
    """Return the environment of this process."""
    return dict(os.environ)
