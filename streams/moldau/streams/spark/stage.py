"""One batch of one sub-topology in an executor: each task runs its records.

Spark calls a `Stage` with the rows of one shuffle partition, which is one task. It runs in a Python
worker process, where programs are unpickled once.
"""

from __future__ import annotations

import pickle
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.client.sync import Producer
from moldau.errors import MoldauError
from moldau.runtime.real import RealClock
from moldau.runtime.real_files import RealFiles
from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.task import Task, TaskSettings
from moldau.streams.plan.plan import Program
from moldau.streams.rocks import RocksMemory
from moldau.streams.spark.stores import AttemptStores
from moldau.streams.spark.versions import Version, token_of

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA: Final = (
    "task int, token string, files array<string>, snapshot_bytes long, delta_bytes long, "
    "times string, records long, is_restored boolean, problem string"
)
COLUMNS: Final = ("partition", "topic", "offset", "time", "key", "value", "headers")
_SLICE: Final = 10_000
_PROGRAMS: Final[dict[str, Program]] = {}
_MEMORY: Final[list[RocksMemory]] = []


@dataclass(frozen=True)
class Stage:
    """What a batch of a sub-topology needs in an executor.

    `name` names the program and the start of the driver; `kept` is the directory of the state,
    which all executors reach."""

    name: str
    program: bytes
    producer: Mapping[str, str]
    kept: str
    batch: int
    run: int
    versions: Mapping[int, Version]
    cache_bytes: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Run the tasks that these rows belong to; yield one row for each."""
        import pyarrow as pa
        import pyarrow.compute as pc

        held = [batch for batch in batches if batch.num_rows]
        if not held:
            return
        rows = pa.Table.from_batches(held)
        for partition in sorted(pc.unique(rows.column("partition")).to_pylist()):
            mine = rows.filter(pc.equal(rows.column("partition"), partition))
            try:
                found = self._run(partition, mine)
            except MoldauError as error:
                found = {"task": partition, "problem": str(error)}
            yield _result(found)

    def _run(self, partition: int, rows: pa.Table) -> dict[str, Any]:
        from pyspark import SparkFiles, TaskContext

        context = TaskContext.get()
        token = token_of(self.batch, self.run, context.taskAttemptId() if context else 0)
        program = _program(self.name, self.program)
        version = self.versions.get(partition, Version())
        task_name = f"{program.index}_{partition}"
        local = posixpath.join(SparkFiles.getRootDirectory(), "moldau-state", self.name, task_name)
        kept = posixpath.join(self.kept, task_name)
        stores = AttemptStores(RealFiles(), kept, local, token)
        try:
            if program.stores:
                stores.open(program, version, _memory())
            task = Task(
                program,
                partition,
                stores.backings,
                settings=TaskSettings(cache_bytes=self.cache_bytes),
                metadata=[version.times] if version.times else (),
            )
            records = self._process(task, rows)
            if program.stores:
                version = stores.commit(version, task.metadata())
            else:
                version = version.after(token, 0, task.metadata(), is_snapshot=False)
        finally:
            stores.drop()
        return {
            "task": partition,
            "token": version.token,
            "files": list(version.files),
            "snapshot_bytes": version.snapshot_bytes,
            "delta_bytes": version.delta_bytes,
            "times": version.times,
            "records": records,
            "is_restored": stores.is_restored,
        }

    def _process(self, task: Task, rows: pa.Table) -> int:
        """Run all rows, and write the outputs. Return how many rows were run."""
        producer = Producer(self.producer).configuration.shared()
        for topic in task.program.inputs:
            chunk = _chunk(topic, rows)
            if chunk is not None:
                task.add(topic, chunk)
            task.set_at_end(topic, is_at_end=True)
        clock = RealClock()
        sent: list[Any] = []
        records = 0
        while done := task.process(clock.wall_ms(), _SLICE):
            records += done
            _send(producer, task, sent)
        assert not any(task.buffered(topic) for topic in task.program.inputs)
        task.flush()
        _send(producer, task, sent)
        for each in sent:
            each.result()
        return records


def _send(producer: Any, task: Task, sent: list[Any]) -> None:
    for outputs in task.take_outputs():
        sent.append(
            producer.send_many(
                outputs.topic,
                outputs.values,
                keys=outputs.keys,
                headers=outputs.headers or None,
                timestamps_ms=outputs.timestamps,
                partition=outputs.partitions or None,
            )
        )


def _chunk(topic: str, rows: pa.Table) -> Chunk | None:
    """Return the records of a topic in the order of their offsets: a shuffle keeps no order."""
    import pyarrow.compute as pc

    mine = rows.filter(pc.equal(rows.column("topic"), topic)).sort_by("offset")
    if not mine.num_rows:
        return None
    offsets = mine.column("offset").to_pylist()
    headers = mine.column("headers")
    found = None
    if headers.null_count < len(headers):
        found = [
            tuple((pair["key"], pair["value"]) for pair in each or ())
            for each in headers.to_pylist()
        ]
    return Chunk(
        offsets,
        mine.column("time").to_pylist(),
        mine.column("key").to_pylist(),
        mine.column("value").to_pylist(),
        offsets[-1] + 1,
        found,
    )


def _result(found: Mapping[str, Any]) -> pa.RecordBatch:
    import pyarrow as pa

    schema = pa.schema(
        [
            ("task", pa.int32()),
            ("token", pa.string()),
            ("files", pa.list_(pa.string())),
            ("snapshot_bytes", pa.int64()),
            ("delta_bytes", pa.int64()),
            ("times", pa.string()),
            ("records", pa.int64()),
            ("is_restored", pa.bool_()),
            ("problem", pa.string()),
        ]
    )
    return pa.RecordBatch.from_pylist([dict(found)], schema)


def _program(name: str, pickled: bytes) -> Program:
    found = _PROGRAMS.get(name)
    if found is None:
        found = _PROGRAMS[name] = pickle.loads(pickled)  # noqa: S301 - our own driver's
    return found


def _memory() -> RocksMemory:
    if not _MEMORY:
        _MEMORY.append(RocksMemory())
    return _MEMORY[0]
