"""The process of a case's client, whatever language it is written in."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from tests.broker.pairs.copiers import Job
from tests.broker.pairs.disconnecting import disconnect
from tests.broker.pairs.model import Piece
from tests.conformance.built import go_program
from tests.peers.apache_kafka import fetch_or_skip

PATIENCE_S: Final = 120.0
_ROOT: Final = Path(__file__).parents[3]
_JAVA: Final = Path(__file__).with_name("PairsClient.java")
_JVM: Final = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_TAIL: Final = 1_500


class ClientFailed(Exception):
    """The client of a case has ended, or does not answer."""


@cache
def words_of(client: str) -> tuple[str, ...]:
    """Return the command line of a client's program; skip the test where it cannot be had."""
    if client == "java":
        kafka = fetch_or_skip()
        return (*kafka.command(*_JVM), str(_JAVA))
    if client == "franz-go":
        return (go_program("pairs"),)
    return (sys.executable, "-m", "tests.broker.pairs.program")


class Client:
    """A client that sends and copies. After `close` its process has ended."""

    def __init__(self, job: Job, log: Path) -> None:
        self._job = job
        self._log = log
        self._process = self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def send(self, pieces: Sequence[Piece]) -> None:
        """Send pieces; all is acknowledged when this returns."""
        given = [
            {
                "begin": each.numbers[0],
                "end": each.numbers[-1] + 1,
                "is_aborted": each.is_aborted,
            }
            for each in pieces
        ]
        self._tell({"do": "send", "pieces": given})
        self._answer("send")

    def copy(self) -> None:
        """Begin to copy."""
        self._tell({"do": "copy"})

    def begin_again(self) -> None:
        """kill -9, while it copies; another process copies on."""
        self._end()
        self._process = self._started()
        self.copy()

    def disconnect(self) -> int:
        """End its connections, while it copies. Return how many there were."""
        return disconnect(self._process.pid)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let its process do nothing in the block."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def stop(self) -> list[str]:
        """Stop the copiers, and return the errors that the library left to the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        errors: list[str] = self._answer("stop")["errors"]
        self._process.wait(PATIENCE_S)
        return errors

    def _started(self) -> subprocess.Popen[str]:
        job = self._job
        with self._log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command
                words_of(job.case["client"]), cwd=_ROOT, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        self._process = process
        self._tell({
            "case": dict(job.case), "source": job.source, "target": job.target, "name": job.name,
            "also_read": list(job.also_read), "door": asdict(job.door), "kafka": job.door.ours(),
            "login": job.door.login(),
        })  # fmt: skip
        return process

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _tell(self, wish: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(wish) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failed("has ended") from error

    def _answer(self, wish: str) -> dict[str, Any]:
        process = self._process
        assert process.stdout is not None
        late = threading.Timer(PATIENCE_S, process.kill)
        late.start()
        try:
            line = process.stdout.readline()
        finally:
            late.cancel()
        if not line:
            raise self._failed(f"has not done: {wish}")
        try:
            found: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise self._failed(f"says {line[:_TAIL]!r} in place of an answer") from error
        return found

    def _failed(self, what: str) -> ClientFailed:
        log = self._log.read_text(encoding="utf-8", errors="replace")
        return ClientFailed(f"{what}: {log[-_TAIL:]}")
