"""Three workers, each with a machine's directory of its own, one of them killed every few seconds.

MOLDAU_STREAMS_KILLS says how many kills there are; the whole run has 20.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from moldau.client.sync import Producer
from moldau.runtime.real_files import RealFiles
from moldau.streams.rocks import RocksMemory, TaskDatabase
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.streams.real.machines import machines
from tests.streams.real.running import App

pytestmark = pytest.mark.real

KILLS: Final = int(os.environ.get("MOLDAU_STREAMS_KILLS", "3"))
KEYS: Final = 200
KILL_EVERY_S: Final = (1.0, 4.0)
PIECE: Final = 50
PIECE_S: Final = 0.02


class Writer:
    """Writes lines, and knows what should come of them."""

    def __init__(self, app: App) -> None:
        self.counts: Counter[str] = Counter()
        self.largest: dict[str, str] = {}
        self._servers = app.servers
        self._topic = f"{app.name}-lines"
        self._number = 0

    def write(self, seconds: float) -> None:
        """Lines, for so long; returns when they are acknowledged."""
        pause, end = threading.Event(), time.monotonic() + seconds
        with Producer(bootstrap_servers=self._servers) as producer:
            while True:
                producer.send_many(self._topic, [self._line() for _ in range(PIECE)])
                producer.flush()
                if pause.wait(PIECE_S) or time.monotonic() >= end:
                    return

    def _line(self) -> bytes:
        self._number += 1
        key = f"key-{self._number % KEYS:03}"
        line = f"{key} {self._number:09}"
        self.counts[key] += 1
        self.largest[key] = line
        return line.encode()


def test_nothing_is_lost_though_workers_are_killed(moldau: MoldauBroker, tmp_path: Path) -> None:
    settings = ("commit.interval.ms=300", "rocksdb.write.buffer.bytes=65536")
    name = f"kills-{tmp_path.name}"
    app = App(moldau.bootstrap_servers, name, tmp_path, "lines", 6, settings).make()
    workers = machines(app, 3)
    processes = [each.start() for each in workers]
    writer, chance = Writer(app), random.Random(23)
    for _ in range(KILLS):
        writer.write(chance.uniform(*KILL_EVERY_S))
        victim = chance.randrange(len(workers))
        processes[victim].kill()
        assert processes[victim].wait(60) == -signal.SIGKILL
        processes[victim] = workers[victim].start()
    writer.write(0)

    app.read(lambda found: found == writer.largest, topic="largest", value=bytes.decode)
    app.read(lambda found: all(found.get(key, 0) >= count for key, count in writer.counts.items()))
    for worker, process in zip(workers, processes, strict=True):
        worker.stop(process)
    for store in ("counts", "largest"):
        for partition, (rows, end) in app.changelog(store).items():
            assert stored(app, store, partition, end) == rows


def stored(app: App, store: str, partition: int, end: int) -> dict[bytes, bytes]:
    """The rows of a database that has all of the changelog's records, without their times."""
    for path in app.folder.glob(f"machine-*/{app.name}/0/tasks/*_{partition}"):
        kinds = {"counts": "key-value", "largest": "key-value"}
        if path.name.startswith("0_"):
            continue
        database = TaskDatabase.open(str(path), kinds, RocksMemory(), RealFiles())
        position = database.position(store)
        rows = {key: row[8:] for key, row in database.backing(store).scan(b"", None)}
        database.close()
        if position is not None and position.offset >= end:
            return rows
    raise AssertionError(f"no database has {store} of partition {partition} up to {end}")
