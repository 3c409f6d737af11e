"""`moldau broker start` as the process that other people's clients connect to.

    with MoldauBroker(folder) as broker:
        broker.bootstrap_servers            # "127.0.0.1:41234"

Tests that share one take the fixture `moldau`:

    from tests.conformance.broker import moldau as moldau

Invariants: the process is ended by its own id; its log is a file, so that it never blocks on
whoever does not read it; a restart keeps directory and port, as clients know them.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from moldau.runtime.node_processes import free_ports
from tests.conformance.forking import Forker, Process
from tests.peers.kafka_broker import HOST
from tests.peers.session_server import of_session

_STOP_TIMEOUT_S: Final = 120
_FORKER: Final = Forker()
_UP: Final = re.compile(r"^\s*bootstrap\s+(\S+):(\d+)$", re.MULTILINE)


class MoldauBroker:
    """One node in a process of its own, its data in `folder`/data unless `arguments` say
    where."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.arguments: Sequence[str] = arguments
        self.port = 0
        self._process: Process | subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    @property
    def data(self) -> Path:
        """Its log directory."""
        return self.folder / "data"

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find it."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> str:
        """What it has logged."""
        return (self.folder / "broker.log").read_text(encoding="utf-8", errors="replace")

    def codecs_in(self, topic: str, partition: int) -> set[int]:
        """The numbers of the codecs that a log's batches are compressed with, from its file."""
        log = (self.data / f"{topic}-{partition}" / f"{0:020}.log").read_bytes()
        found = set()
        position = 0
        while position < len(log):
            found.add(log[position + 22] & 7)
            position += 12 + int.from_bytes(log[position + 8 : position + 12], "big")
        return found

    def start(self) -> None:
        """Returns when it says that it is up; AssertionError with its last words if it ends."""
        assert self._process is None, "the broker runs already"
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "broker.log").open("ab") as log:
            self._process = self._started(log.fileno(), _clean_environment())
        self.port = self._announced_port(self._process)

    def stop(self) -> None:
        """A clean stop; whatever went wrong inside until then is an error here."""
        process = self._take()
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"it did not stop: {self.log[-3000:]}") from None
        assert process.returncode == 0, self.log[-3000:]
        assert "Traceback" not in self.log, self.log[-6000:]

    def kill(self) -> None:
        """kill -9; the data directory is left as it is."""
        process = self._take()
        if process is not None:
            process.kill()
            process.wait()

    def pause(self) -> None:
        """Stop the process until `resume`; connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _started(self, log: int, environment: Mapping[str, str]) -> Process | subprocess.Popen[str]:
        if _FORKER.can_start(environment):
            with suppress(ChildProcessError):
                return _FORKER.start(self._words(), log, environment, self.folder)
        return subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "moldau.cli", *self._words()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
            cwd=self.folder,
        )

    def _take(self) -> Process | subprocess.Popen[str] | None:
        process, self._process = self._process, None
        if process is not None and process.stdout is not None:
            process.stdout.close()
        return process

    def _words(self) -> list[str]:
        command = ["broker", "start", "--shards", "1"]
        if "--config" not in self.arguments:
            if not self.port:
                (self.port,) = free_ports(1)
            if not any(each.startswith("log.dirs=") for each in self.arguments):
                command += ["--data", str(self.data)]
            command += ["--listen", self.bootstrap_servers]
        return [*command, "--log-level", "info", *self.arguments]

    def _announced_port(self, process: Process | subprocess.Popen[str]) -> int:
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            if line.startswith("Ctrl-C"):
                break
        found = _UP.search(text)
        if found is None:
            self.kill()
        assert found, f"it did not come up: {text}{self.log[-3000:]}"
        return int(found[2])


def _clean_environment() -> dict[str, str]:
    """That of this process, without what would be taken for settings."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MOLDAU_", "KAFKA_"))
    }


_SHARED = pytest.StashKey[MoldauBroker]()


@pytest.fixture(scope="session")
def moldau(request: pytest.FixtureRequest, tmp_path_factory: Any) -> MoldauBroker:
    """The session's broker."""
    return of_session(request, _SHARED, lambda: MoldauBroker(tmp_path_factory.mktemp("moldau")))
