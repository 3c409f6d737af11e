"""One batch of one sub-topology in an executor: each task runs its records.

Spark calls a `Stage` with the rows of one shuffle partition, which is one task. It runs in a Python
worker process, where programs are unpickled once.
"""

from __future__ import annotations

import pickle
import posixpath
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.client import TransactionError
from moldau.errors import MoldauError
from moldau.runtime.real import RealClock
from moldau.runtime.real_files import RealFiles
from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.task import Task, TaskSettings
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError
from moldau.streams.rocks import RocksMemory
from moldau.streams.spark.delivery import Delivery, TaskBatch, at_least_once, exactly_once
from moldau.streams.spark.failures import missing_package
from moldau.streams.spark.lakes import lakes_here
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

    `name` names the program and the start of the driver; `checkpoint` is the id of the checkpoint
    for exactly-once, else None; `kept` is the directory of the state, which all executors reach."""

    name: str
    program: bytes
    producer: Mapping[str, str]
    admin: Mapping[str, str]
    checkpoint: str | None
    kept: str
    batch: int
    run: int
    versions: Mapping[int, Version]
    cache_bytes: int
    lakes: Mapping[str, str]
    """The version of each lake table that this batch uses."""
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    """Where the batch ends, by topic and partition: after markers of transactions too."""

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
            except TransactionError:
                raise  # another attempt may have taken over: this one has no result
            except MoldauError as error:
                found = {"task": partition, "problem": str(error)}
            yield _result(found)

    def _run(self, partition: int, rows: pa.Table) -> dict[str, Any]:
        """Run a task on its rows; if an earlier attempt has committed them, only return that."""
        program = _program(self.name, self.program)
        before = self.versions.get(partition, Version())
        with self._delivery(program, partition) as delivery:
            found = delivery.committed(program.inputs, before)
            if found is not None:
                return _row(partition, found, rows.num_rows)
            with self._stores(program, partition) as stores:
                with delivery.transaction():
                    if program.stores:
                        stores.open(program, before, _memory())
                    task = Task(
                        program,
                        partition,
                        stores.backings,
                        settings=TaskSettings(cache_bytes=self.cache_bytes),
                        metadata=[before.times] if before.times else (),
                        global_tables=lakes_here(self.name, program.lake_tables, self.lakes),
                    )
                    offsets = self._process(task, rows, delivery)
                    after = stores.write(before, task.metadata())
                    delivery.record(offsets, before, after)
                stores.keep()
                return _row(partition, after, rows.num_rows, is_restored=stores.is_restored)

    def _delivery(self, program: Program, partition: int) -> AbstractContextManager[Delivery]:
        if self.checkpoint is None:
            return at_least_once(self.producer)
        batch = TaskBatch(program.app, program.index, partition, self.checkpoint, self.batch)
        return exactly_once(self.producer, self.admin, batch)

    @contextmanager
    def _stores(self, program: Program, partition: int) -> Iterator[AttemptStores]:
        from pyspark import SparkFiles, TaskContext

        context = TaskContext.get()
        token = token_of(self.batch, self.run, context.taskAttemptId() if context else 0)
        name = f"{program.index}_{partition}"
        local = posixpath.join(SparkFiles.getRootDirectory(), "moldau-state", self.name, name)
        stores = AttemptStores(RealFiles(), posixpath.join(self.kept, name), local, token)
        try:
            yield stores
        finally:
            stores.drop()

    def _process(self, task: Task, rows: pa.Table, delivery: Delivery) -> dict[str, int]:
        """Run all rows, and send the outputs. Return the next offset of each topic."""
        offsets: dict[str, int] = {}
        for topic in task.program.inputs:
            chunk = _chunk(topic, rows)
            if chunk is not None:
                offsets[topic] = chunk.next_offset
                task.add(topic, chunk)
            end = self.ends.get(topic, {}).get(task.partition)
            if end is not None:
                offsets[topic] = max(end, offsets.get(topic, 0))
            task.set_at_end(topic, is_at_end=True)
        clock = RealClock()
        while task.process(clock.wall_ms(), _SLICE):
            _send(delivery, task)
        assert not any(task.buffered(topic) for topic in task.program.inputs)
        task.flush()
        _send(delivery, task)
        return offsets


def _send(delivery: Delivery, task: Task) -> None:
    for outputs in task.take_outputs():
        delivery.send(outputs)


def _row(
    partition: int, version: Version, records: int, *, is_restored: bool = False
) -> dict[str, Any]:
    return {
        "task": partition,
        "token": version.token,
        "files": list(version.files),
        "snapshot_bytes": version.snapshot_bytes,
        "delta_bytes": version.delta_bytes,
        "times": version.times,
        "records": records,
        "is_restored": is_restored,
    }


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
        try:
            found = _PROGRAMS[name] = pickle.loads(pickled)  # noqa: S301 - our own driver's
        except ModuleNotFoundError as error:
            raise StreamsError(missing_package(error.name or str(error))) from None
    return found


def _memory() -> RocksMemory:
    if not _MEMORY:
        _MEMORY.append(RocksMemory())
    return _MEMORY[0]
