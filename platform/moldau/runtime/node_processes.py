"""Processes that this process starts, watches and ends: the nodes of a cluster on one machine.

Invariants: a child has a session of its own, so that only the parent gets a Ctrl-C in the terminal,
and ends its children in its own order; a child's standard error goes to a file or to the parent's,
and its standard output is read line by line. A leashed child may send lines to its parent
(`moldau.runtime.signals.send_to_parent`).
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from moldau.runtime.questions import VARIABLE
from moldau.runtime.signals import LEASH, LEASH_ON_STDIN

MAIN = "from moldau.cli import main; raise SystemExit(main())"
_READ_BYTES = 65_536
_LOWEST_PORT = 15_000
_FIRST_OUTGOING_PORT = 32_768
_ROW_ATTEMPTS = 100


class NodeProcess:
    """A process that runs a command of `moldau`."""

    def __init__(
        self,
        words: Sequence[str],
        error_path: str | None,
        environment: Mapping[str, str] | None = None,
        *,
        directory: str | None = None,
        is_leashed: bool = False,
        shares_output: bool = False,
    ) -> None:
        """Start the process in `directory`. Its standard error is appended to `error_path`; None
        shares that of this process. Its standard output is read by `line`, unless it
        `shares_output` with this process. A leashed process ends when this process does, however
        it ends (see `moldau.runtime.signals`). One with `ASKED` in its environment answers at the
        other end of `questions` (see `moldau.runtime.questions`), which the caller owns."""
        self._pending = self._sent = b""
        self._leash: socket.socket | None = None
        self._is_ending = False
        self.questions: socket.socket | None = None
        inherited: list[int] = []
        own = {LEASH: LEASH_ON_STDIN} if is_leashed else {}
        with ExitStack() as opened:
            errors: BinaryIO | None = None
            stdin = subprocess.DEVNULL
            if is_leashed:
                self._leash, far_end = socket.socketpair()
                self._leash.setblocking(False)
                stdin = opened.enter_context(far_end).fileno()
            if environment and VARIABLE in environment:
                self.questions, answers = socket.socketpair()
                self.questions.setblocking(False)
                inherited = [opened.enter_context(answers).fileno()]
                own[VARIABLE] = str(inherited[0])
            if error_path is not None:
                errors = opened.enter_context(Path(error_path).open("ab"))
            self._process = subprocess.Popen(  # noqa: S603 (our own command)
                [sys.executable, "-c", MAIN, *words],
                stdin=stdin,
                stdout=None if shares_output else subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **(environment or {}), **own},
                cwd=directory,
                start_new_session=True,
                pass_fds=inherited,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs, and negative if a signal ended it."""
        return self._process.poll()

    def line(self, timeout_s: float) -> str | None:
        """Return the next line of its output; None if there was none in time, or it has ended."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()  # select.select knows no descriptor above 1023
        poll.register(descriptor, select.POLLIN)
        until = time.monotonic() + timeout_s
        while b"\n" not in self._pending:
            ready = poll.poll(max(0.0, until - time.monotonic()) * 1000)
            if not ready:
                return None
            read = os.read(descriptor, _READ_BYTES)
            if not read:
                return None
            self._pending += read
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode("utf-8", "replace")

    def take_sent(self) -> list[str]:
        """Return the lines that a leashed process has sent since the last call, and do not wait."""
        while self._leash is not None:
            try:
                read = self._leash.recv(_READ_BYTES)
            except OSError:  # there is no more, or the process has ended
                break
            if not read:
                break
            self._sent += read
        *lines, self._sent = self._sent.split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines]

    def terminate(self) -> None:
        """Send SIGTERM to the process, once: a second one would end it before it is in order."""
        if not self._is_ending:
            self._is_ending = True
            self._process.terminate()

    def kill(self) -> None:
        """End the process at once, as `kill -9` does."""
        self._process.kill()

    def pause(self) -> None:
        """Stop the process, as on a machine that swaps."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the stopped process."""
        self._process.send_signal(signal.SIGCONT)

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code; None if it has not ended in that time."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        for pipe in (self._leash, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return code


def stop_all(processes: Iterable[NodeProcess], timeout_s: float) -> int:
    """Stop processes in order, side by side. Kill each that has not ended in time, and return how
    many these were."""
    all_of_them = list(processes)
    for process in all_of_them:
        if process.exit_code is None:
            process.resume()
            process.terminate()
    killed = 0
    for process in all_of_them:
        if process.wait(timeout_s) is None:
            process.kill()
            process.wait(timeout_s)
            killed += 1
    return killed


def outputs_of(
    commands: Sequence[Sequence[str]], directory: str, timeout_s: float
) -> list[tuple[int | None, str, str]]:
    """Run commands of `moldau` in parallel; return the exit code (None: it took too long), standard
    output and standard error of each."""
    running = [
        subprocess.Popen(  # noqa: S603 (our own command)
            [sys.executable, "-c", MAIN, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            text=True,
            errors="replace",
        )
        for words in commands
    ]
    return [_output(each, timeout_s) for each in running]


def run_program(words: Sequence[str], timeout_s: float) -> int | None:
    """Run a program of the user, whose output is that of this process. Return its exit code; None
    if it took too long, and was killed."""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno()) as process:  # noqa: S603 (the user's own command)
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            return None


def _output(process: subprocess.Popen[str], timeout_s: float) -> tuple[int | None, str, str]:
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        return None, out, err
    return process.returncode, out, err


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Return ports that are free now.

    They are below the range that the system uses for the ports of outgoing connections: any of
    these may be taken by another program's connection before the caller listens.
    """
    found: set[int] = set()
    while len(found) < count:
        found.add(free_ports_in_row(1, host))
    return list(found)


def free_ports_in_row(count: int, host: str = "127.0.0.1") -> int:
    """Return the first of several consecutive ports that are free now, below the same range. In
    that range a connection may hold every second port, also for a minute after its end."""
    end = _first_outgoing_port()
    for _ in range(_ROW_ATTEMPTS):
        first = secrets.randbelow(end - _LOWEST_PORT - count) + _LOWEST_PORT
        if all(_is_free(host, port) for port in range(first, first + count)):
            return first
    raise OSError(f"no {count} ports in a row are free between {_LOWEST_PORT} and {end}")


def _first_outgoing_port() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        return _FIRST_OUTGOING_PORT


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as each:
        try:
            each.bind((host, port))
        except OSError:
            return False
        return True


def pause_s(seconds: float) -> None:
    """Wait, in a program without an event loop."""
    time.sleep(seconds)


def monotonic_s() -> float:
    """Return the seconds of a clock that never goes back, in a program without an event loop."""
    return time.monotonic()


def signal_name(number: int) -> str:
    """Return the name of a signal, such as `SIGKILL` for 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
