"""A runner as its task sees it: a process, and messages both ways.

Invariants: nothing but messages goes over the wires; a runner ends with its task; the end of a
runner ends its Java.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Protocol

from moldau.connectors.spark.messages import Message, dump, parse
from moldau.runtime.children import Mailbox, start_thread

MODULE: Final = "moldau.connectors.spark.runner"
_END: Final[Message] = {"type": "end"}


class Wires(Protocol):
    """How a runner is started, and how lines go to it and come from it."""

    def start(self) -> subprocess.Popen[bytes]:
        """The process; called once."""
        ...

    def lines(self) -> Iterator[bytes]:
        """What the runner says, until it is gone."""
        ...

    def write(self, line: bytes) -> None:
        """One line to the runner. A runner that has ended loses it."""
        ...

    def close(self) -> None:
        """Called when the process has ended; `lines` ends too."""
        ...


class Pipes:
    """The runner is a child, and the wires are its standard input and output."""

    def start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the worker, which stops its runners in order
        )
        return self._process

    def lines(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            yield from pipe

    def write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()


class RunnerProcess:
    """A runner, started."""

    def __init__(self, wires: Wires) -> None:
        self._wires = wires
        self._process = self._wires.start()
        self._messages: Mailbox[Message] = Mailbox()
        self._listener = start_thread(self._listen, "spark runner")

    def _listen(self) -> None:
        try:
            for line in self._wires.lines():
                self._messages.put(parse(line))
        finally:
            self._messages.put(_END)

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def take(self, timeout_s: float) -> Message | None:
        """The next message, of type `end` when the runner has closed its side; None when there is
        none in time."""
        found = self._messages.take(timeout_s)
        if found is _END:
            self._messages.put(_END)
        return found

    def send(self, message: Message) -> None:
        """A runner that has ended loses it."""
        self._wires.write(dump(message))

    def kill(self) -> None:
        """SIGKILL, as from outside."""
        self._process.kill()

    def end(self, timeout_s: float) -> None:
        """Waits for the end of a runner that was told to stop, then forces it."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._wires.close()
        self._listener.join()
