"""The engine `spark` without Java: batches of a topic's records, cut anywhere, run by its stages.

What Spark does here is done by hand: the records of a batch go to the tasks by their partitions,
each task runs in a stage with its own transaction on a real broker, and the driver's commit file
follows. Between batches the app may move to another machine (its stores are read from the
checkpoint), and a batch may run again, as after the death of a driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from moldau.client import TopicPartition
from moldau.client.sync import Admin, Consumer
from moldau.runtime.real_files import RealFiles
from moldau.streams.plan.plan import Plan, Program
from moldau.streams.running import checked, task_settings
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.limits import check
from moldau.streams.spark.shipping import pickled
from moldau.streams.spark.stage import Stage
from moldau.streams.spark.topics import prepare
from moldau.streams.spark.versions import Version

pytest.importorskip("pyspark", reason="pyspark is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ROWS = pa.schema(
    [
        ("partition", pa.int32()),
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("time", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", _HEADERS),
    ]
)


class Batches:
    """An app on the engine's stages. `chance` cuts batches, moves tasks and repeats batches."""

    def __init__(
        self, plan: Plan, servers: str, folder: Path, chance: Random, *, is_cut: bool = True
    ) -> None:
        check(plan)
        self._settings = checked(
            {"bootstrap.servers": servers, "processing.guarantee": "exactly_once_v2"}
        )
        self._plan = plan
        self._folder = folder
        self._chance = chance
        self._layout = prepare(plan, self._settings)
        self._programs = {each.index: pickled(each) for each in plan.programs}
        self._kept = Checkpoint.open(RealFiles(), str(folder / "checkpoint"), plan, 1)
        self._batch = dict.fromkeys(self._programs, 0)
        self._is_cut = is_cut
        self._read: dict[TopicPartition, int] = {
            TopicPartition(topic, partition): max(offset, 0)
            for index in self._programs
            for topic, offsets in self._kept.moved_offsets(index).items()
            for partition, offset in offsets.items()
        }
        self._machine = 0
        # A fetch that waits for records holds the next question for the ends up.
        own = {"isolation.level": "read_committed", "fetch.max.wait.ms": "10"}
        self._consumer = Consumer({**self._settings.of("consumer"), **own})
        self._consumer.start()

    def close(self) -> None:
        self._consumer.close()
        self._kept.close()
        # An executor keeps the admin client open that its attempts share.
        Admin(self._settings.of("admin")).configuration.shared().close()

    def settle(self) -> None:
        """Run batches until nothing is left to read."""
        is_left = True
        while is_left:
            is_left = False
            for program in self._plan.programs:
                is_left |= self._ran(program)

    def die(self) -> None:
        """Run a batch of the first sub-topology, which its tasks commit, and the driver does not:
        it dies before."""
        program = self._plan.programs[0]
        rows = self._rows(program)
        assert rows
        batch = self._batch[program.index]
        self._note_ends(program, batch)
        self._run(program, rows, batch, self._kept.versions_before(program.index, batch))

    def _ran(self, program: Program) -> bool:
        """Run a batch of what is there, or of a part of it. Return whether there was something."""
        rows = self._rows(program)
        if not rows:
            return False
        batch = self._batch[program.index]
        self._note_ends(program, batch)
        before = self._kept.versions_before(program.index, batch)
        versions = self._run(program, rows, batch, before)
        if self._chance.random() < 0.2:  # the driver dies before it commits
            again = self._run(program, rows, batch, before)
            assert {task: each.files for task, each in again.items()} == {
                task: each.files for task, each in versions.items()
            }
        if self._chance.random() < 0.2:  # the executor is lost
            self._machine += 1
        self._kept.commit(program.index, batch, {**before, **versions})
        self._batch[program.index] = batch + 1
        return True

    def _note_ends(self, program: Program, batch: int) -> None:
        """As Spark does before it runs a batch."""
        ends: dict[str, dict[str, int]] = {}
        for topic in program.inputs:
            for partition in range(self._layout.counts[topic]):
                where = TopicPartition(topic, partition)
                read = self._read.get(where, 0)
                if not self._is_cut:  # after the marker of a transaction
                    read = self._read[where] = max(read, self._consumer.position(where) or 0)
                ends.setdefault(topic, {})[str(partition)] = read
        folder = Path(self._kept.query(program.index), "offsets")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(ends)}")

    def _run(
        self,
        program: Program,
        rows: list[dict[str, Any]],
        batch: int,
        before: Mapping[int, Version],
    ) -> dict[int, Version]:
        stage = Stage(
            name=f"{program.app}-{program.index}",
            program=self._programs[program.index],
            producer=self._settings.of("producer"),
            admin=self._settings.of("admin"),
            checkpoint=self._kept.id,
            kept=self._kept.state(program.index),
            batch=batch,
            run=1,
            versions=before,
            lakes={},
            cache_bytes=task_settings(self._plan, self._settings).cache_bytes,
            ends=self._kept.ends(program.index, batch),
        )
        self._chance.shuffle(rows)  # a shuffle keeps no order
        found = {}
        with _on_machine(self._folder / f"machine-{self._machine}"):
            for result in stage(iter([pa.RecordBatch.from_pylist(rows, _ROWS)])):
                (row,) = result.to_pylist()
                assert row["problem"] is None, row["problem"]
                found[row["task"]] = Version(
                    row["token"], tuple(row["files"]), row["snapshot_bytes"], row["delta_bytes"],
                    row["times"],
                )  # fmt: skip
        return found

    def _rows(self, program: Program) -> list[dict[str, Any]]:
        wanted = [
            TopicPartition(topic, partition)
            for topic in program.inputs
            for partition in range(self._layout.counts[topic])
        ]
        self._consumer.assign(wanted)
        self._consumer.resume(wanted)
        for each in wanted:
            self._consumer.seek(each, self._read.get(each, 0))
        ends = self._consumer.end_offsets(wanted)
        limit = self._chance.choice([5, 20, 1000]) if self._is_cut else 1_000_000
        rows: list[dict[str, Any]] = []
        while any((self._consumer.position(each) or 0) < end for each, end in ends.items()):
            for part in self._consumer.poll(0.02):
                where = TopicPartition(part.topic, part.partition)
                for record in part.records[:limit]:
                    self._read[where] = record.offset + 1
                    headers = [{"key": key, "value": value} for key, value in record.headers]
                    rows.append(
                        {
                            "partition": part.partition,
                            "topic": part.topic,
                            "offset": record.offset,
                            "time": record.timestamp,
                            "key": record.key,
                            "value": record.value,
                            "headers": headers or None,
                        }
                    )
                if len(part.records) > limit:
                    self._consumer.pause([where])
                    ends.pop(where, None)
        return rows


@contextmanager
def _on_machine(folder: Path) -> Iterator[None]:
    """A stage finds the stores of this machine, and no others."""
    from pyspark import SparkFiles

    folder.mkdir(parents=True, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkFiles, "_is_running_on_worker", True)
        patch.setattr(SparkFiles, "_root_directory", str(folder))
        yield
