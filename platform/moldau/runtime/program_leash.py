"""Programs of others that end when this process does, however it ends.

A program that knows nothing of its parent, such as Java, outlives a parent that is killed. Closing
its standard input is not enough if it does not read it, and the parent's own clean-up does not run
after kill -9.

1. Linux sends SIGKILL to the program when the thread that has started it ends (PR_SET_PDEATHSIG).
   That thread is one of its own, which does nothing else and lasts as long as this process.
2. A program that was forked while this process ended ends before it runs: it sees another parent.
3. At an orderly end of this process the program gets SIGTERM first, and time for its clean-up. That
   is also what other systems have.

Invariant: a signal that raises an exception in the caller while a program starts loses no program:
the thread keeps it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from moldau.errors import without_frames
from moldau.runtime.children import Mailbox, start_thread

_PR_SET_PDEATHSIG: Final = 1
_END_S: Final = 10.0


class ProgramLeash:
    """Starts programs, and ends them with this process. What is registered with `atexit` after the
    leash was made runs before it ends them."""

    def __init__(self, end_s: float = _END_S) -> None:
        self._end_s = end_s
        self._owner = os.getpid()
        self._started: list[Mailbox[subprocess.Popen[Any] | Exception]] = []
        self._prctl: Callable[..., int] | None = None
        if sys.platform == "linux":
            self._prctl = ctypes.CDLL(None).prctl
        atexit.register(self.end)

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program as `subprocess.Popen` does, with its options; any thread may call
        this."""
        first = options.pop("preexec_fn", None)
        options["preexec_fn"] = self._before_program(first)
        result: Mailbox[subprocess.Popen[Any] | Exception] = Mailbox()
        self._started.append(result)

        def run() -> None:
            try:
                result.put(subprocess.Popen(command, **options))  # noqa: S603 (the caller's)
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                result.put(without_frames(error))
                return
            Mailbox[None]().take(None)  # the program lasts as long as this thread

        start_thread(run, "program leash")
        made = _peek(result)
        if isinstance(made, Exception):
            raise made
        return made

    def end(self) -> None:
        """End all programs that run: SIGTERM, and SIGKILL for one that takes too long."""
        if os.getpid() != self._owner:  # a fork: the programs are not its own
            return
        started, self._started = self._started, []
        running = [made for made in map(_peek, started) if not isinstance(made, Exception)]
        for each in running:
            with suppress(OSError):
                each.terminate()
        for each in running:
            try:
                each.wait(self._end_s)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()

    def _before_program(self, then: Callable[[], object] | None) -> Callable[[], object] | None:
        """Return what the child does before it becomes the program."""
        prctl, parent = self._prctl, self._owner
        if prctl is None:
            return then

        def prepare() -> None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:  # it has ended before the line above
                os.kill(os.getpid(), signal.SIGKILL)
            if then is not None:
                then()

        return prepare


def _peek(
    result: Mailbox[subprocess.Popen[Any] | Exception],
) -> subprocess.Popen[Any] | Exception:
    """Wait for what was started, and leave it there for the next call."""
    made = result.take(None)
    assert made is not None
    result.put(made)
    return made
