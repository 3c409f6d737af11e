"""The process of a runner, as its task sees it: start it, exchange messages, end it.

Invariants: a transport carries nothing but messages; a runner ends with its task; the end of a
runner ends its Java.
"""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Final, Protocol

from moldau.connectors.spark.messages import Message, encode_message, parse_message
from moldau.runtime.children import Mailbox, start_thread

MODULE: Final = "moldau.connectors.spark.runner"
_END: Final[Message] = {"type": "end"}
_OUTPUT_LINES: Final = 60
_OUTPUT_END_S: Final = 2.0


class Transport(Protocol):
    """A way to start a runner, and to exchange lines with it."""

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process. The caller does this once.

        What it prints is in its `stderr`, or in its `stdout` if it has no `stderr`.
        """

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the runner until it closes its side."""

    def write(self, line: bytes) -> None:
        """Write one line to the runner. The line is lost if the runner has ended."""

    def close(self) -> None:
        """Close the transport after the process has ended. This ends `lines` too."""


class Pipes:
    """The transport of a child process: its standard input and output."""

    def start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
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


class Output:
    """Passes on what a runner and its Java print, and keeps the last lines."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._stream = stream
        self._lines: deque[str] = deque(maxlen=_OUTPUT_LINES)
        self._reader = start_thread(self._read, "spark runner's output")

    def _read(self) -> None:
        if self._stream is None:
            return
        with self._stream as stream, suppress(ValueError):  # closed at the end of a test
            for line in stream:
                text = line.decode(errors="replace")
                self._lines.append(text.rstrip())
                sys.stderr.write(text)

    def last_lines(self) -> list[str]:
        """Return the last lines. Wait a moment for the end of the output."""
        self._reader.join(_OUTPUT_END_S)
        return list(self._lines)


class RunnerProcess:
    """The process of one runner. The constructor starts it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._process = self._transport.start()
        self._output = Output(self._process.stderr or self._process.stdout)
        self._messages: Mailbox[Message] = Mailbox()
        self._listener = start_thread(self._listen, "spark runner")

    def _listen(self) -> None:
        try:
            for line in self._transport.lines():
                self._messages.put(parse_message(line))
        finally:
            self._messages.put(_END)

    def last_lines(self) -> list[str]:
        """Return the last lines that an ending runner and its Java have printed."""
        return self._output.last_lines()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code of the process; None while it runs."""
        return self._process.poll()

    def final_exit_code(self) -> int | None:
        """Return the exit code of a process that has closed its side. Wait a moment for its end."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_OUTPUT_END_S)
        return self.exit_code

    def take(self, timeout_s: float) -> Message | None:
        """Return the next message; None if none comes within the timeout.

        After the runner has closed its side, this is a message of type `end` each time.
        """
        found = self._messages.take(timeout_s)
        if found is _END:
            self._messages.put(_END)
        return found

    def send(self, message: Message) -> None:
        """Send a message to the runner. The message is lost if the runner has ended."""
        self._transport.write(encode_message(message))

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()

    def end(self, timeout_s: float) -> None:
        """Wait until a runner that got `stop` has ended. Kill it after the timeout."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._transport.close()
        self._listener.join()
