"""Counting workers as processes, and what a test reads of their topics without an event loop."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer

_WAIT_S = 60


@dataclass
class WordCount:
    """The topics of one app."""

    servers: str
    app: str
    state: Path
    partitions: int = 2
    lines: str = field(init=False)
    out: str = field(init=False)

    def __post_init__(self) -> None:
        self.lines, self.out = f"{self.app}-lines", f"{self.app}-out"

    def make(self) -> Self:
        with Admin(bootstrap_servers=self.servers) as admin:
            for topic in (self.lines, self.out):
                admin.create_topic(NewTopic(topic, self.partitions, 1))
        return self

    def write(self, *lines: str) -> None:
        with Producer(bootstrap_servers=self.servers) as producer:
            producer.send_many(self.lines, [line.encode() for line in lines])
            producer.flush()

    def read(self, is_enough: Callable[[dict[str, int]], bool]) -> dict[str, int]:
        """The last count of each word, as soon as that is enough."""
        found: dict[str, int] = {}
        with Consumer(bootstrap_servers=self.servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions(self.out))
            for _ in range(_WAIT_S * 4):
                if is_enough(found):
                    return found
                for part in consumer.poll(0.25):
                    for record in part.records:
                        found[record.key.decode()] = int(record.value)
        missing = dict(list(found.items())[:20])
        raise AssertionError(f"{self.out} has after {_WAIT_S} s only {len(found)}: {missing}")

    def changelog_records(self) -> int:
        with Consumer(bootstrap_servers=self.servers) as consumer:
            ends = consumer.end_offsets(consumer.partitions(f"{self.app}-counts-changelog"))
        return sum(ends.values())

    def worker(self, index: int = 0) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.streams.worker.program", self.servers, self.app]
        words = [self.lines, self.out, str(self.state), str(index)]
        return subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True)  # noqa: S603


def stop(process: subprocess.Popen[str]) -> int:
    """A clean stop; how many changelog records it had restored."""
    process.terminate()
    told, _ = process.communicate(timeout=_WAIT_S)
    assert process.returncode == 0
    return int(told.removeprefix("restored"))


def kill(process: subprocess.Popen[str]) -> None:
    """kill -9."""
    process.kill()
    process.communicate(timeout=_WAIT_S)
    assert process.returncode == -signal.SIGKILL
