"""Run `moldau` commands for the demo, each in a process of its own, as in a terminal."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MOLDAU = str(Path(sys.executable).with_name("moldau"))
STOP_S = 60.0
POLL_S = 0.1


class DemoFailed(Exception):
    """The demo cannot continue. The message says why."""


class Command:
    """A running command. Its output goes to a file."""

    def __init__(self, name: str, words: Sequence[str], folder: Path, root: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            # Its own process group: Ctrl-C reaches only the demo, and the demo stops the command.
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                [MOLDAU, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=root,
                process_group=0,
            )

    def wait_for_line(self, beginning: str, timeout_s: float) -> str:
        """Wait for a line of output that begins with this text. Return the rest of the line."""
        found: list[str] = []

        def is_there() -> bool:
            self.check()
            text = self.log.read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                if line.strip().startswith(beginning):
                    found.append(line.strip().removeprefix(beginning).strip())
                    return True
            return False

        wait_until(is_there, f"{self.name} to print {beginning!r}", timeout_s)
        return found[0]

    def check(self) -> None:
        """Raise DemoFailed if the command has ended."""
        code = self._process.poll()
        if code is not None:
            raise DemoFailed(f"{self.name} ended with code {code}; its last lines:\n{self.tail()}")

    def tail(self) -> str:
        """Return the last lines of the output."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(f"  {line[:300]}" for line in text.splitlines()[-12:])

    def output(self, timeout_s: float) -> str:
        """Wait until the command has ended by itself. Return what it wrote."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.stop()
        return self.log.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """Stop the command with SIGTERM, or with SIGKILL if that takes too long."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running(name: str, words: Sequence[str], folder: Path, root: Path) -> Iterator[Command]:
    """Run a command until the block ends."""
    command = Command(name, words, folder, root)
    try:
        yield command
    finally:
        command.stop()


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Wait until `holds` returns true. Raise DemoFailed if that takes too long."""
    until = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > until:
            raise DemoFailed(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(POLL_S)
