"""docs/streams.md, "When a worker goes": its commands, and `kill -9` for one of the two workers,
while its standby answers queries."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from tests.client.guides import programs, text_of
from tests.conformance.broker import MoldauBroker
from tests.peers.eventually import eventually

pytestmark = pytest.mark.real

GUIDE: Final = "streams.md"
ROOT: Final = Path(__file__).parents[3]
FAST: Final = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
}
PARTITIONS: Final = 4
KEYS: Final = 40
WINDOW_MS: Final = 60_000


def commands() -> list[str]:
    section = text_of(GUIDE).split("## When a worker goes")[1].split("\n## ")[0]
    return re.findall(r"^\$ (moldau .*)$", section, re.MULTILINE)


def start(command: str, servers: str, folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
    """Start what the page says, in a directory that has the page's app. It serves queries."""
    words = [*shlex.split(command), "--listen", "127.0.0.1:0"]
    number = len(list(folder.glob("worker-*.log")))
    log = folder / f"worker-{number}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "moldau.cli", *words[1:], "--bootstrap", servers],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    return process, log


def status(command: str, servers: str, folder: Path) -> list[list[str]]:
    """The lines of what the page says, in words."""
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "moldau.cli", *shlex.split(command)[1:], "--bootstrap", servers],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.split() for line in done.stdout.splitlines()]


def asked(log: Path, query: str) -> dict[str, Any]:
    """What a worker answers about the page's store; it says where it listens."""
    url = re.findall(r"queries at (http\S+)", log.read_text())[-1]
    with urlopen(f"{url}/stores/counts?{query}", timeout=60) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
    return found


class Writer:
    """Writes words with times of one after the other, and counts them as the app has to."""

    def __init__(self, servers: str) -> None:
        self.counts: Counter[str] = Counter()
        self._servers = servers
        self._begin_ms = int(time.time() * 1000) - 3_600_000
        self._number = 0

    def write(self, seconds: float) -> None:
        pause, end = threading.Event(), time.monotonic() + seconds
        with Producer(bootstrap_servers=self._servers) as producer:
            while not pause.wait(0.02) and time.monotonic() < end:
                for _ in range(20):
                    self._number += 1
                    word = f"word-{self._number % KEYS}"
                    time_ms = self._begin_ms + self._number
                    where = self._number % PARTITIONS
                    producer.send("lines", word.encode(), timestamp_ms=time_ms, partition=where)
                    self.counts[f"{word} from {time_ms - time_ms % WINDOW_MS}"] += 1
                producer.flush()


def read(servers: str, is_enough: Counter[str]) -> dict[str, int]:
    """The last committed count of each window, as soon as all are there; none may be too high."""
    found: dict[str, int] = {}
    end = time.monotonic() + 90
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(consumer.partitions("out"))
        while found != is_enough and time.monotonic() < end:
            for part in consumer.poll(0.25):
                for record in part.records:
                    key = record.key.decode()
                    found[key] = max(found.get(key, 0), int(record.value))
    return found


@pytest.mark.parametrize("victim", [0, 1])
def test_a_standby_goes_on_exactly_once_after_kill_9(tmp_path: Path, victim: int) -> None:
    *workers, shown = commands()
    assert len(workers) == 2
    settings = [each for name, value in FAST.items() for each in ("--set", f"{name}={value}")]
    with MoldauBroker(tmp_path / "broker", *settings) as broker:
        servers = broker.bootstrap_servers
        (tmp_path / "wc.py").write_text(programs(GUIDE)[0])
        with Admin(bootstrap_servers=servers) as admin:
            for topic in ("lines", "out"):
                admin.create_topic(NewTopic(topic, PARTITIONS, 1))
        started = [start(each, servers, tmp_path) for each in workers]
        try:
            _kill_one(started, victim, servers, partial(status, shown, servers, tmp_path))
        finally:
            for process, _ in started:
                if process.poll() is None:
                    process.kill()
                process.wait(60)


def _kill_one(
    started: list[tuple[subprocess.Popen[bytes], Path]],
    victim: int,
    servers: str,
    lines: Callable[[], list[list[str]]],
) -> None:
    writer = Writer(servers)
    writer.write(1.0)

    def is_spread() -> bool:
        copies = re.compile(r"standby tasks 1_\d+(, 1_\d+)+$", re.MULTILINE)
        return all(copies.search(log.read_text()) for _, log in started)

    eventually(is_spread)
    writer.write(3.0)
    assert read(servers, writer.counts) == writer.counts

    roles = Counter((line[0], line[1]) for line in lines()[2:])
    tasks = [f"1_{partition}" for partition in range(PARTITIONS)]
    assert all(roles[task, role] == 1 for task in tasks for role in ("active", "standby")), roles
    seen_before: dict[str, Any] = {}

    def is_copied() -> bool:
        seen_before.update(asked(started[1 - victim][1], "stale=true"))
        total = sum(row["value"] for row in seen_before["rows"])
        return bool(total == sum(writer.counts.values()))

    eventually(is_copied)

    gone, (left, log) = started[victim][0], started[1 - victim]
    gone.kill()
    assert gone.wait(60) == -signal.SIGKILL
    bound = ",".join(f"{each}:{at}" for each, at in seen_before["position"].items())
    eventually(lambda: asked(log, f"stale=true&at_least={bound}")["stale"])
    seen = len(log.read_text())
    writer.write(2.0)
    begun = time.monotonic()
    assert read(servers, writer.counts) == writer.counts
    print(f"all counted {time.monotonic() - begun:.1f} s after the last word was written")
    after = log.read_text()[seen:]
    restored = sum(int(each.replace(",", "")) for each in re.findall(r"([\d,]+) offsets", after))
    assert restored < sum(writer.counts.values()) / 10, after
    left.terminate()
    assert left.wait(60) == 0, log.read_text()
    assert "Traceback" not in log.read_text(), log.read_text()
