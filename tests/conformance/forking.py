"""Commands of `moldau` in processes that are forked from one that has imported the broker.

    process = Forker().start(["broker", "start"], errors, os.environ, folder)
    process.stdout.readline(), process.terminate(), process.wait()

A new interpreter works for 0.7 s of CPU before a broker of it does anything, and tests start
hundreds. A fork has the modules already. It is a process like any other: with its own id, signals,
streams, environment and folder, and it ends as an interpreter does.

    python -m tests.conformance.forking FD    the process that forks, FD: the socket of its parent

A request is one packet: JSON of the words, the folder and the environment, with four descriptors:
the three streams of the child and a pipe, in which the parent reads the id of the child and its
exit code, once it has ended.

Invariants: the process that forks has one thread, opens nothing and ends with its parent. It alone
waits for a child. An environment with other variables of Python than those that it has started with
needs an interpreter of its own (`can_start`): a test may plant a fault by them. If the process that
forks has ended, `start` raises ChildProcessError, and then all need one.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from moldau.deferred import complete_constructors

MODULES: Final = (
    "moldau.cli.application",
    "moldau.broker.main.broker_command",
    "moldau.broker.main.process",
    "moldau.broker.main.exposure",
    "moldau.broker.server.standalone",
    "uvloop",
)
PACKET_BYTES: Final = 1 << 18


class Process:
    """A forked process, with what tests use of `subprocess.Popen`."""

    def __init__(self, news: io.TextIOWrapper, stdout: io.TextIOWrapper) -> None:
        self.stdout = stdout
        self.returncode: int | None = None
        self._news = news
        pid = news.readline()
        if not pid:
            news.close()
            stdout.close()
            raise ChildProcessError("the process that forks has ended")
        self.pid = int(pid)

    def poll(self) -> int | None:
        """Return the exit code; None while it runs, and negative if a signal has ended it."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code. Raises TimeoutExpired."""
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._news, select.POLLIN)
            if not poll.poll(None if timeout is None else timeout * 1000):
                raise subprocess.TimeoutExpired("moldau", timeout or 0)
            self.returncode = int(self._news.readline() or -signal.SIGKILL)
            self._news.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Forker:
    """The process that forks, as its parent sees it. It starts with the first child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._has_ended = False
        self.server: subprocess.Popen[bytes] | None = None
        self._python = _of_python(os.environ)

    def can_start(self, environment: Mapping[str, str]) -> bool:
        """Whether a child with this environment would be as if it had an interpreter."""
        is_able = sys.platform == "linux" and not self._has_ended
        return is_able and _of_python(environment) == self._python

    def start(
        self, words: Sequence[str], errors: int, environment: Mapping[str, str], folder: Path
    ) -> Process:
        """Start a command whose output is read; its errors go to a descriptor. Raise
        ChildProcessError if the process that forks has ended."""
        request = json.dumps([list(words), str(folder), dict(environment)]).encode()
        (news, tells), (output, writes) = os.pipe(), os.pipe()
        with Path(os.devnull).open("rb") as nothing:
            given = [nothing.fileno(), writes, errors, tells]
            with self._lock, suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(self._connected(), [request], given)
        os.close(writes)
        os.close(tells)
        try:
            return Process(os.fdopen(news, encoding="ascii"), os.fdopen(output, encoding="utf-8"))
        except ChildProcessError:
            self._has_ended = True
            raise

    def _connected(self) -> socket.socket:
        if self._control is None:
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                server = subprocess.Popen(  # noqa: S603 - this module
                    [sys.executable, "-m", __name__, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    cwd=Path(__file__).parent.parent.parent,
                )
            self.server = server
            atexit.register(_end, self._control, server)
        return self._control


def _end(control: socket.socket, server: subprocess.Popen[bytes]) -> None:
    control.close()
    server.wait()


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


class _Forked(Exception):
    """Raised in a child, which now runs the command of these words."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(words)
        self.words = words


class _Server:
    """The process that forks."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._tells: dict[int, int] = {}
        """By the id of each child, the pipe in which its end is told."""

    def serve(self) -> None:
        """Fork for each request until the parent has ended. Raises _Forked in a child."""
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        poll = select.poll()
        for descriptor in (self._control.fileno(), woken):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if woken in ready:
                os.read(woken, 512)
                self._reap()
            if self._control.fileno() in ready and not self._take([woken, wakes]):
                return

    def _take(self, own: Sequence[int]) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, PACKET_BYTES, 4)
        if not data:
            return False
        words, folder, environment = json.loads(data)
        *streams, tells = descriptors
        assert len(os.listdir("/proc/self/task")) == 1, "a thread was started by an import"
        pid = os.fork()
        if not pid:
            self._become(streams, [*own, tells], folder, environment)
            raise _Forked(words)
        for descriptor in streams:
            os.close(descriptor)
        self._tells[pid] = tells
        with suppress(BrokenPipeError):
            os.write(tells, f"{pid}\n".encode())
        return True

    def _become(
        self, streams: Sequence[int], others: Sequence[int], folder: str, environment: Any
    ) -> None:
        """Make this child what an interpreter is that begins."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        for descriptor in (*streams, *others, *self._tells.values()):
            os.close(descriptor)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin = os.fdopen(0, encoding="utf-8")
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace")

    def _reap(self) -> None:
        while self._tells:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            tells = self._tells.pop(pid)
            with suppress(BrokenPipeError):
                os.write(tells, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(tells)


def main() -> int:
    """Serve the parent. In a child, run its command and return its exit code."""
    for name in MODULES:
        with suppress(ModuleNotFoundError):
            import_module(name)
    complete_constructors()
    gc.collect()
    gc.freeze()  # so that a collection in a child does not write to shared pages
    try:
        _Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    except _Forked as forked:
        words = forked.words
    else:
        return 0
    gc.unfreeze()
    from moldau import cli

    return cli.main(words)


if __name__ == "__main__":
    sys.exit(main())
