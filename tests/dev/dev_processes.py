"""`moldau dev` as a process of its own, in the folder of a project."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.connect.processes import wait_until

# Ctrl-C is what it is in a terminal, also where the tests run in the background.
_MAIN = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from moldau.cli import main; exit(main())"
)
_HANGS_S = 300.0
PATIENCE_S = 300.0
_PORTS = ("--port", "0", "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0")


class Dev:
    """A running `moldau dev`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.told: list[str] = []
        self.until("Ctrl-C stops it.")

    def until(self, part: str) -> str:
        """Read its lines until one has this text. Return that line."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told.append(line.rstrip())
            if part in line:
                return line
        raise AssertionError("\n".join(self.told))

    def place(self, name: str) -> str:
        """Return the address behind this word."""
        return next(words[1] for words in map(str.split, self.told) if words[0] == name)

    @property
    def cpu_s(self) -> float:
        """The seconds of a core that it has taken. It asks Linux's /proc."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> int:
        """Press Ctrl-C. Return the exit code."""
        self._process.send_signal(signal.SIGINT)
        assert self._process.stdout is not None
        self.told += map(str.rstrip, self._process.stdout)
        return self._process.wait(PATIENCE_S)


@contextmanager
def dev(folder: Path, *words: str, python: str = sys.executable) -> Iterator[Dev]:
    """`moldau dev` in this folder, on free ports."""
    words = (python, "-c", _MAIN, "dev", *_PORTS, *words)
    with subprocess.Popen(  # noqa: S603 - our own command
        words, cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        hangs = threading.Timer(_HANGS_S, process.kill)  # then its output ends
        hangs.start()
        try:
            yield Dev(process)
        finally:
            hangs.cancel()
            process.kill()
    wait_until(lambda: not processes_in(folder), "the end of its processes", PATIENCE_S)


def processes_in(folder: Path) -> list[str]:
    """The processes of this machine whose directory is that one."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if (each / "cwd").readlink() == folder:
                found.append(each.name)
        except OSError:
            continue
    return found
