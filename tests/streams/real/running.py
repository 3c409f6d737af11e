"""An app under `moldau streams run` as a process, and what a test reads and writes beside it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer

ROOT: Final = Path(__file__).parents[3]
_WAIT_S: Final = 120
_started: Final[list[subprocess.Popen[str]]] = []


@contextmanager
def no_process_left() -> Iterator[None]:
    """Kills the process groups that `App.start` began inside the block, however the block ends.

    Workers of a supervisor have sessions of their own; they end when the supervisor's pipe does.
    """
    begun = len(_started)
    try:
        yield
    finally:
        for process in _started[begun:]:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(_WAIT_S)
        del _started[begun:]


@dataclass
class App:
    """One app on one broker, with its processes' log in a file. Each process leads a group."""

    servers: str
    name: str
    folder: Path
    which: str = "words"
    partitions: int = 2
    settings: tuple[str, ...] = ("commit.interval.ms=200",)
    prefix: tuple[str, ...] = ()
    """What the command line begins with."""
    module: str = "apps"
    state: Path = field(init=False)
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.state = self.folder / "state"
        self.log = self.folder / "app.log"

    def make(self) -> Self:
        with Admin(bootstrap_servers=self.servers) as admin:
            for topic in ("lines", "out", "largest"):
                admin.create_topic(NewTopic(f"{self.name}-{topic}", self.partitions, 1))
        return self

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [*self.prefix, sys.executable, "-m", "moldau.cli", "streams", "run"]
        command += [f"tests.streams.real.{self.module}:{self.which}", "--bootstrap", self.servers]
        command += ["--state", str(self.state), *arguments]
        for each in self.settings:
            command += ["--set", each]
        with self.log.open("a") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                env={**os.environ, "APP": self.name},
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        _started.append(process)
        return process

    def stop(self, process: subprocess.Popen[str]) -> None:
        """As an operator does it; the app must end in order."""
        process.terminate()
        code = process.wait(_WAIT_S)
        assert code == 0, self.log.read_text()[-3000:]
        assert "Traceback" not in self.log.read_text(), self.log.read_text()[-6000:]

    def restored(self) -> int:
        """How many changelog offsets all processes so far have restored."""
        found = re.findall(r"([\d,]+) offsets", "\n".join(self._lines("restored")))
        return sum(int(each.replace(",", "")) for each in found)

    def _lines(self, word: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if f": {word} " in line]

    def write(self, *lines: str, timestamp_ms: int | None = None) -> None:
        with Producer(bootstrap_servers=self.servers) as producer:
            values = [line.encode() for line in lines]
            producer.send_many(f"{self.name}-lines", values, timestamps_ms=timestamp_ms)
            producer.flush()

    def read(
        self,
        is_enough: Callable[[dict[Any, Any]], object],
        *,
        key: Callable[[bytes], Any] = bytes.decode,
        value: Callable[[Any], Any] = int,
        topic: str = "out",
    ) -> dict[Any, Any]:
        """The last value of each key, as soon as that is enough."""
        found: dict[Any, Any] = {}
        with Consumer(bootstrap_servers=self.servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions(f"{self.name}-{topic}"))
            end = time.monotonic() + _WAIT_S
            while time.monotonic() < end:
                if is_enough(found):
                    return found
                for part in consumer.poll(0.25):
                    for record in part.records:
                        found[key(record.key)] = value(record.value)
        some = dict(list(found.items())[:20])
        log = self.log.read_text()[-20_000:]
        raise AssertionError(f"after {_WAIT_S} s the output has {len(found)} keys: {some}\n{log}")

    def committed(self, topic: str) -> list[str]:
        """The values of all committed records, each partition in its order."""
        found: list[str] = []
        with Consumer(
            bootstrap_servers=self.servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as consumer:
            partitions = consumer.partitions(f"{self.name}-{topic}")
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            while any((consumer.position(where) or 0) < end for where, end in ends.items()):
                for part in consumer.poll(0.25):
                    found += [record.value.decode() for record in part.records]
        return found

    def changelog(self, store: str) -> dict[int, tuple[dict[bytes, bytes], int]]:
        """By partition: what the changelog's committed records make together, and where the last
        of them ends. Behind that may be what a killed worker wrote and nobody committed."""
        topic = f"{self.name}-{store}-changelog"
        with Consumer(bootstrap_servers=self.servers) as consumer:
            ends = consumer.end_offsets(consumer.partitions(topic))
        with Consumer(
            bootstrap_servers=self.servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            consumer.assign(list(ends))
            found: dict[int, dict[bytes, bytes]] = {where.partition: {} for where in ends}
            last = dict.fromkeys(found, 0)
            while any((consumer.position(where) or 0) < end for where, end in ends.items()):
                for part in consumer.poll(0.5):
                    for record in part.records:
                        found[part.partition][record.key] = record.value
                        last[part.partition] = record.offset + 1
        return {partition: (rows, last[partition]) for partition, rows in found.items()}

    def changelog_records(self) -> int:
        with Consumer(bootstrap_servers=self.servers) as consumer:
            ends = consumer.end_offsets(consumer.partitions(f"{self.name}-counts-changelog"))
        return sum(ends.values())


def streams(app: App, action: str, *words: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command on the app."""
    command = [sys.executable, "-m", "moldau.cli", "streams", action]
    command += [f"tests.streams.real.apps:{app.which}", *words, "-b", app.servers]
    done = subprocess.run(  # noqa: S603 - our own command
        command, env={**os.environ, "APP": app.name}, cwd=ROOT,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def copied(servers: str, other: str, topic: str) -> None:
    """Write the records of a topic to the same offsets of a topic elsewhere."""
    with Consumer(bootstrap_servers=servers) as consumer, Producer(bootstrap_servers=other) as to:
        parts = consumer.partitions(topic)
        ends = consumer.end_offsets(parts)
        consumer.assign(parts)
        consumer.seek_to_beginning(parts)
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            for part in consumer.poll(0.2):
                for each in part.records:
                    to.send(topic, each.value, key=each.key, partition=part.partition)
        to.flush()
