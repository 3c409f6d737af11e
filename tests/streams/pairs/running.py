"""Runs a case: an app in processes of its own, with a fault in the middle of its input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from tests.conformance.broker import MoldauBroker
from tests.streams.pairs.model import (
    BEGAN_MS,
    KEYS,
    RECORDS,
    Line,
    copy_problems,
    key_of,
    letters,
    lines,
    problems,
)

ROOT: Final = Path(__file__).parents[3]
PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.3
_SESSION_MS: Final = 6_000
_STOP_S: Final = 60
_RESTING: Final = threading.Event()
_numbers: Final = count(1)


@dataclass(slots=True)
class Workers:
    """The processes of an app, each with a directory and a log."""

    case: Mapping[str, str]
    name: str
    broker: MoldauBroker
    folder: Path
    processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, worker: int) -> None:
        words = [
            sys.executable,
            "-m",
            "moldau.cli",
            "streams",
            "run",
            "tests.streams.pairs.app:app",
        ]
        words += ["--bootstrap", self.broker.bootstrap_servers]
        words += ["--state", str(self.state(worker))]
        for setting in (
            "commit.interval.ms=100",
            f"processing.guarantee={self.case['guarantee']}",
            f"consumer.session.timeout.ms={_SESSION_MS}",
            "consumer.heartbeat.interval.ms=500",
        ):
            words += ["--set", setting]
        env = {**os.environ, "APP": self.name, "CASE": json.dumps(dict(self.case))}
        env["BEGAN_MS"] = str(BEGAN_MS)
        with self.log(worker).open("ab") as log:
            self.processes[worker] = subprocess.Popen(  # noqa: S603 - our own command
                words, env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def state(self, worker: int) -> Path:
        return self.folder / f"{self.name}-state-{worker}"

    def log(self, worker: int) -> Path:
        return self.folder / f"{self.name}-{worker}.log"

    def kill(self, worker: int) -> None:
        process = self.processes.pop(worker)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(_STOP_S)

    def stop(self, worker: int) -> str | None:
        """Stop a worker in order. Return what is wrong with its end."""
        process = self.processes.pop(worker)
        process.terminate()
        code = process.wait(_STOP_S)
        log = self.log(worker).read_text(errors="replace")
        if code not in (0, -signal.SIGTERM):  # the latter before it has begun to listen to signals
            return f"worker {worker} ended with {code}: {log[-600:]}"
        return f"worker {worker} wrote a traceback: {log[-900:]}" if "Traceback" in log else None

    def ended(self) -> list[str]:
        """Return the last words of workers that have ended by themselves."""
        return [
            f"worker {each} ended with {process.poll()}: {self.log(each).read_text()[-600:]}"
            for each, process in self.processes.items()
            if process.poll() is not None
        ]


def run_case(broker: MoldauBroker, folder: Path, case: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the end of the app."""
    name = f"pairs{next(_numbers)}"
    _make_topics(broker, name, case)
    workers = Workers(case, name, broker, folder)
    given = lines(case)
    _send(broker, name, case, given[: RECORDS // 2])
    wrong: list[str] = []
    try:
        for worker in range(int(case["workers"])):
            workers.start(worker)
        _await(lambda: bool(_output(broker, name)[0]), PATIENCE_S)
        wrong += _fault(workers, case)
        _send(broker, name, case, given[RECORDS // 2 :])
        found: list[str] = ["nothing was read"]

        def is_right() -> bool:
            found[:] = problems(case, *_output(broker, name)) or _beside(broker, name, case)
            return not found or bool(workers.ended())

        _await(is_right, PATIENCE_S)
        wrong += [*workers.ended(), *found]
        for worker in list(workers.processes):
            said = workers.stop(worker)
            wrong += [] if said is None else [said]
        # What comes after it was right, such as a record that counts twice.
        if not wrong:
            wrong += problems(case, *_output(broker, name)) + _beside(broker, name, case)
    finally:
        for worker in list(workers.processes):
            workers.kill(worker)
    return wrong


def _fault(workers: Workers, case: Mapping[str, str]) -> list[str]:
    match case["fault"]:
        case "kill":
            workers.kill(0)
            workers.start(0)
        case "again":
            for _ in range(2):
                workers.kill(0)
                workers.start(0)
                _RESTING.wait(1.0)
        case "wiped":
            said = workers.stop(0)
            shutil.rmtree(workers.state(0))
            workers.start(0)
            return [] if said is None else [said]
        case "broker":
            workers.broker.kill()
            workers.broker.start()
    return []


def _make_topics(broker: MoldauBroker, name: str, case: Mapping[str, str]) -> None:
    partitions = int(case["partitions"])
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        for topic in ("lines", "out", "names", "dead", "copy"):
            admin.create_topic(NewTopic(f"{name}-{topic}", partitions, 1))
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(KEYS):
            key = key_of(number).encode()
            where = None if case["writer"] == "undeclared crc32" else _partition(case, number, key)
            producer.send(f"{name}-names", b"name", key=key, partition=where)
        producer.flush()


def _partition(case: Mapping[str, str], number: int, key: bytes | None) -> int | None:
    """Return where the writer of the case puts a record; None as our client does (murmur2)."""
    partitions = int(case["partitions"])
    if case["writer"] == "round robin":
        return number % partitions
    if case["writer"].endswith("crc32") and key is not None:
        return zlib.crc32(key) % partitions
    return None


def _send(broker: MoldauBroker, name: str, case: Mapping[str, str], given: Sequence[Line]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for each in given:
            key = None if each.key is None else each.key.encode()
            producer.send(
                f"{name}-lines",
                None if each.value is None else each.value.encode(),
                key=key,
                partition=_partition(case, each.number, key),
                timestamp_ms=each.timestamp_ms,
            )
        producer.flush()


def _output(broker: MoldauBroker, name: str) -> tuple[Counter[str], dict[str, str]]:
    """Return all committed values of the output, and the last one of each key."""
    values: Counter[str] = Counter()
    last: dict[str, str] = {}
    for key, value in _read(broker, f"{name}-out"):
        if value is not None:
            values[value] += 1
        last[key] = value or ""
    return values, last


def _beside(broker: MoldauBroker, name: str, case: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the outputs beside that of the operator."""
    copied = Counter(value or "" for _, value in _read(broker, f"{name}-copy"))
    return _letters(broker, name, case) + copy_problems(case, copied)


def _letters(broker: MoldauBroker, name: str, case: Mapping[str, str]) -> list[str]:
    found = {int(value.split()[1]) for _, value in _read(broker, f"{name}-dead") if value}
    wanted = letters(case)
    return [] if found == wanted else [f"dead letters {sorted(found)} and not {sorted(wanted)}"]


def _read(broker: MoldauBroker, topic: str) -> list[tuple[str, str | None]]:
    found = []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        where = consumer.partitions(topic)
        consumer.assign(where)
        ends = consumer.end_offsets(where)
        while any((consumer.position(each) or 0) < end for each, end in ends.items()):
            for part in consumer.poll(1.0):
                for each in part.records:
                    value = None if each.value is None else each.value.decode()
                    found.append(((each.key or b"").decode(), value))
    return found


def _await(is_enough: object, seconds: float) -> None:
    """Wait until it is so, or the time is over: what is wrong is told by the caller."""
    assert callable(is_enough)
    until = time.monotonic() + seconds
    while not is_enough() and time.monotonic() < until:
        _RESTING.wait(_LOOK_S)
