"""`moldau broker start` as a process of its own, and how it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 60
END_SECONDS = 60
BOOTSTRAP = re.compile(r"^\s*bootstrap\s+(\S+):(\d+)$", re.MULTILINE)


def moldau(
    *arguments: str, home: Path, by: Sequence[str] = (), **environment: str
) -> subprocess.Popen[str]:
    """The command, with an environment that says nothing of settings; started `by` another one."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MOLDAU_", "KAFKA_"))
    }
    return subprocess.Popen(  # noqa: S603 (our own command)
        [*by, sys.executable, "-m", "moldau.cli", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**clean, "HOME": str(home), "XDG_DATA_HOME": "", **environment},
        cwd=home,
    )


def finished(*arguments: str, home: Path, **environment: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that ends by itself."""
    process = moldau(*arguments, home=home, **environment)
    out, err = process.communicate(timeout=END_SECONDS)
    return process.returncode, out, err


class BrokerProcess:
    """One that is up."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.text = ""
        assert process.stdout is not None
        for line in process.stdout:
            self.text += line
            if line.startswith("Ctrl-C"):
                break
        found = BOOTSTRAP.search(self.text)
        assert found, f"it did not come up: {self.text}{process.communicate()[1]}"
        self.host, self.port = found[1], int(found[2])

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Sends a signal; exit code and log."""
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=END_SECONDS)
        return self.process.returncode, log

    def kill(self) -> None:
        """As the kernel does it: nothing is told, nothing is closed."""
        self.process.kill()
        self.process.communicate(timeout=END_SECONDS)


@contextmanager
def broker_process(home: Path, *arguments: str, **environment: str) -> Iterator[BrokerProcess]:
    """Killed at the end if it still runs."""
    listen = () if "--config" in arguments else ("--listen", "127.0.0.1:0")
    process = moldau("broker", "start", *listen, *arguments, home=home, **environment)
    try:
        yield BrokerProcess(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=END_SECONDS)


def answer(address: str) -> tuple[int, str]:
    """The status and the text at an address of this machine."""
    try:
        with urllib.request.urlopen(f"http://{address}") as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
