"""What is open for a long time lies in RocksDB once the cache is full; results stay the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from moldau.runtime.real_files import RealFiles
from moldau.streams import Streams, session, tumbling, until_close, within
from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.construction import Store
from moldau.streams.engine.task import Task, TaskSettings
from moldau.streams.plan.plan import Plan
from moldau.streams.rocks import RocksMemory, TaskDatabase
from moldau.streams.state.agenda import Agenda
from moldau.streams.worker.tasks import store_kinds

CACHE_BYTES = 100_000
AGENDA = 100
BATCH = 500
KEYS = 3000
HOUR_MS = 3_600_000
MEMORY = RocksMemory(cache_bytes=1 << 20, write_buffer_bytes=1 << 20)

Row = tuple[str, str, int, int]


@pytest.fixture(autouse=True)
def small_agendas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Agenda, "size", AGENDA)


class Runner:
    """One task on a real database: commits after each batch, and looks at what is in memory."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        (self.program,) = plan.programs
        self.folder = str(folder)
        self.offsets = dict.fromkeys(self.program.inputs, 0)
        self.highest = 0
        self.text = ""
        self.open()

    def open(self) -> None:
        kinds = store_kinds(self.program.stores)
        self.database = TaskDatabase.open(self.folder, kinds, MEMORY, RealFiles())
        backings = {name: self.database.backing(name) for name in kinds}
        settings = TaskSettings(cache_bytes=CACHE_BYTES, max_task_idle_ms=-1)
        self.task = Task(self.program, 0, backings, settings=settings, metadata=[self.text])

    def restart(self) -> None:
        self.text = self.task.metadata()
        self.database.close()
        self.open()

    def run(self, records: list[Row]) -> Iterator[tuple[bytes, bytes, int]]:
        """What comes out of records (topic, key, value, time), in their order."""
        for first in range(0, len(records), BATCH):
            for topic, key, value, time in records[first : first + BATCH]:
                offset = self.offsets[topic]
                self.offsets[topic] += 1
                chunk = Chunk([offset], [time], [key.encode()], [str(value).encode()], offset + 1)
                self.task.add(topic, chunk)
                while self.task.process(0):
                    pass
            self.task.flush()
            self.database.commit({})
            self.highest = max(self.highest, *map(in_memory, self.task.network.stores.values()))
            for outputs in self.task.take_outputs():
                rows = zip(outputs.keys, outputs.values, outputs.timestamps, strict=True)
                yield from rows


def in_memory(store: Store) -> int:
    return store.size_bytes()


def joined() -> Plan:
    app = Streams("app")
    left, right = (app.stream(side, int, key=str) for side in ("left", "right"))
    together = left.outer_join(
        right, lambda one, two: [one, two], within=within(HOUR_MS, grace=0), name="j"
    )
    together.to("out", key=str)
    return app.plan()


def test_a_join_of_an_hour(tmp_path: Path) -> None:
    chance = Random(7)
    records: list[Row] = []
    kept: dict[str, dict[str, list[tuple[int, int]]]] = {"left": {}, "right": {}}
    expected = []
    alone: dict[tuple[str, str, int, int], None] = {}
    for number in range(6000):
        side = chance.choice(("left", "right"))
        key, time = f"key-{chance.randrange(KEYS)}", number * 1000
        records.append((side, key, number, time))
        other = "right" if side == "left" else "left"
        met = [row for row in kept[other].get(key, ()) if row[0] >= time - HOUR_MS]
        kept[side].setdefault(key, []).append((time, number))
        for over in [each for each in alone if each[3] + HOUR_MS < time]:
            del alone[over]
            pair = [over[2], None] if over[0] == "left" else [None, over[2]]
            expected.append((over[1], pair, over[3]))
        for at, value in met:
            alone.pop((other, key, value, at), None)
            pair = [number, value] if side == "left" else [value, number]
            expected.append((key, pair, time))
        if not met:
            alone[side, key, number, time] = None

    found = played(joined(), tmp_path, records)

    assert found == expected


def sessions(emit: Any) -> Plan:
    app = Streams("app")
    group = app.stream("in", int, key=str).group_by_key().window(session(HOUR_MS), emit=emit)
    group.count(name="n").changes().map(lambda key, value: (key.key, value)).to("out", key=str)
    return app.plan()


def test_sessions_with_a_gap_of_an_hour(tmp_path: Path) -> None:
    records, expected = session_records()

    assert played(sessions("close"), tmp_path, records) == expected


def session_records() -> tuple[list[Row], list[tuple[str, Any, int]]]:
    chance = Random(11)
    records: list[Row] = []
    expected: list[tuple[str, Any, int]] = []
    # The end and count of each open session, the lowest end first.
    ends: dict[str, tuple[int, int]] = {}
    for number in range(6000):
        key, time = f"key-{chance.randrange(KEYS)}", number * 1500
        records.append(("in", key, 1, time))
        while ends and ends[oldest := next(iter(ends))][0] < time - HOUR_MS:
            end, count = ends.pop(oldest)
            expected.append((oldest, count, end))
        _, count = ends.pop(key, (0, 0))
        ends[key] = (time, count + 1)
    return records, expected


def suppressed() -> Plan:
    app = Streams("app")
    group = app.stream("in", int, key=str).group_by_key().window(tumbling(HOUR_MS))
    finals = group.count(name="n").suppress(until_close(), name="finals")
    finals.changes().map(lambda key, value: (key.key, value)).to("out", key=str)
    return app.plan()


def test_suppressed_windows_of_an_hour(tmp_path: Path) -> None:
    chance = Random(13)
    records: list[Row] = []
    counts: dict[tuple[int, str], tuple[int, int]] = {}
    for number in range(6000):
        key, time = f"key-{chance.randrange(KEYS)}", number * 2000
        records.append(("in", key, 1, time))
        window = time // HOUR_MS
        counts[window, key] = (counts.get((window, key), (0, 0))[0] + 1, time)
    last = 6000 * 2000 // HOUR_MS
    expected = [
        (key, count, time)
        for (window, key), (count, time) in sorted(counts.items())
        if window < last
    ]
    records.append(("in", "last", 1, last * HOUR_MS))

    assert played(suppressed(), tmp_path, records) == expected


def played(plan: Plan, folder: Path, records: list[Row]) -> list[tuple[str, Any, int]]:
    """What comes out, with a restart in the middle; as much as may be was in memory."""
    runner = Runner(plan, folder)
    half = len(records) // 2
    found = list(runner.run(records[:half]))
    runner.restart()
    found += list(runner.run(records[half:]))
    runner.database.close()
    assert runner.highest <= CACHE_BYTES
    return [(key.decode(), json.loads(value), time) for key, value, time in found]
