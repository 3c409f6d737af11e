"""A runner as its task sees it: a process and two pipes.

Invariants: nothing but messages is written to the runner's standard output; a runner whose task is
gone ends; the end of a runner ends its Java, which hangs on the runner's pipe.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import IO, Final

from moldau.connectors.spark.messages import Message, dump, parse
from moldau.runtime.children import Mailbox, start_thread

MODULE: Final = "moldau.connectors.spark.runner"
_END: Final[Message] = {"type": "end"}


class RunnerProcess:
    """A runner, started."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the worker, which stops its runners in order
        )
        self._messages: Mailbox[Message] = Mailbox()
        assert self._process.stdout is not None
        pipe = self._process.stdout
        self._listener = start_thread(lambda: self._listen(pipe), "spark runner")

    def _listen(self, pipe: IO[bytes]) -> None:
        try:
            for line in pipe:
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
        assert self._process.stdin is not None
        with suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(dump(message) + b"\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL, as from outside."""
        self._process.kill()

    def end(self, timeout_s: float) -> None:
        """Waits for the end of a runner that was told to stop, then forces it; closes the pipes."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
