"""The processes of the demo: `moldau` commands, each as in a terminal of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

MOLDAU = str(Path(sys.executable).with_name("moldau"))
STOP_S = 60.0
LOOK_S = 0.1


class Failed(Exception):
    """The demo cannot go on: one line says why."""


class Command:
    """A command that runs, with what it says in a file."""

    def __init__(self, name: str, words: Sequence[str], folder: Path, root: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            # A group of its own: Ctrl-C at a terminal is for the demo, which stops it.
            self._process = subprocess.Popen(  # noqa: S603 - our own commands
                [MOLDAU, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=root,
                process_group=0,
            )

    def wait_for_line(self, beginning: str, timeout_s: float) -> str:
        """The rest of the first line that begins so."""
        found: list[str] = []

        def is_there() -> bool:
            self.check()
            text = self.log.read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                if line.strip().startswith(beginning):
                    found.append(line.strip().removeprefix(beginning).strip())
                    return True
            return False

        wait_until(is_there, f"{self.name} to say {beginning!r}", timeout_s)
        return found[0]

    def check(self) -> None:
        """Failed if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise Failed(f"{self.name} ended with code {code}; its last words:\n{self.tail()}")

    def tail(self) -> str:
        """The end of what it said."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return "\n".join(f"  {line[:300]}" for line in text.splitlines()[-12:])

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when it takes too long."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def running(name: str, words: Sequence[str], folder: Path, root: Path) -> Iterator[Command]:
    """A command until the block ends."""
    command = Command(name, words, folder, root)
    try:
        yield command
    finally:
        command.stop()


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float) -> None:
    """Returns as soon as it holds; Failed when it takes too long."""
    until = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > until:
            raise Failed(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(LOOK_S)
