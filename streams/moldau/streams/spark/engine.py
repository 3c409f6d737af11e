"""The driver's part: a streaming query for each sub-topology, and the commit of each batch."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

from moldau.client import LATEST, TopicPartition
from moldau.client.sync import Admin
from moldau.runtime.threads import here
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StreamsError
from moldau.streams.spark.failures import first_line
from moldau.streams.spark.preparation import Preparation
from moldau.streams.spark.slots import slots
from moldau.streams.spark.stage import COLUMNS, RESULT_SCHEMA, Stage
from moldau.streams.spark.versions import Version
from moldau.streams.worker.settings import AppSettings

LOG: Final = logging.getLogger("moldau.streams")
_NOT_READ: Final = ("group.", "enable.auto.commit", "auto.offset.reset", "client.id")


class SparkApp:
    """An app on a Spark session.

        running = app.on_spark(spark, checkpoint="/shared/app", bootstrap="localhost:9092")
        running.wait()                # until a query fails, or `stop` from another thread

    Or `process_available()`, which runs all records that are there, and returns."""

    def __init__(self, prepared: Preparation, spark: Any) -> None:
        """Nothing runs yet. Raise StreamsError for a session that cannot run apps."""
        app = prepared.layout.plan.app
        if not hasattr(spark, "sparkContext") or "connect" in type(spark).__module__:
            prepared.close()
            raise StreamsError(
                f"app={app}: it needs a session with a driver of its own, not Spark Connect: "
                "give a master, such as spark://HOST:7077"
            )
        self._lakes = prepared.lakes
        self._spark = spark
        self._prepared = prepared
        self._programs = prepared.programs
        self._settings = prepared.settings
        self._cache_bytes = prepared.cache_bytes
        self._layout = prepared.layout
        self._checkpoint = prepared.checkpoint
        self._queries: list[Any] = []
        self._problem: str | None = None
        self.records = 0
        """How many records the committed batches of this driver have run."""
        self.restored = 0
        """How many times a task has read its stores from the checkpoint."""

    def start(self, interval: str | None = None) -> Self:
        """Start the queries. `interval` is the time between batches, such as `1 second`."""
        trigger = {"processingTime": interval or "0 seconds"}
        with self._told():
            self._queries = [self._query(each, trigger) for each in self._layout.plan.programs]
        return self

    def wait(self) -> None:
        """Wait until a query ends. Raise StreamsError if it failed.

        The main thread waits in Python alone, so that no signal interrupts a call of Java."""
        ended = here().queue()

        def watch() -> None:
            ended.put(_error_of(self._spark.streams.awaitAnyTermination))

        here().start(watch, f"{self._layout.plan.app}: queries")
        error = ended.get()
        with self._told():
            if error is not None:
                raise error

    def process_available(self) -> None:
        """Run all records that are there, those in repartition topics included.

        Sub-topologies run one after the other, again until none finds records."""
        with self._told(), Admin(self._settings.of("admin")) as admin:
            while True:
                before = self.records
                for program in self._layout.plan.programs:
                    if self._is_behind(program, admin):
                        self._query(program, {"availableNow": True}).awaitTermination()
                if self.records == before:
                    return

    def _is_behind(self, program: Program, admin: Admin) -> bool:
        """Whether the inputs have more than the committed batches have read. A query that finds
        nothing takes a second."""
        batch, _ = self._checkpoint.last(program.index, 0)
        read = self._checkpoint.ends(program.index, batch)
        wanted = {
            TopicPartition(topic, partition): LATEST
            for topic in program.inputs
            for partition in range(self._layout.counts[topic])
        }
        return any(
            end.offset > read.get(where.topic, {}).get(where.partition, 0)
            for where, end in admin.list_offsets(wanted, is_committed=True).items()
        )

    def stop(self) -> None:
        """Stop the queries and release the checkpoint. A batch that runs does not count."""
        queries, self._queries = self._queries, []
        for query in queries:
            query.stop()
        self._prepared.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise a failure of a task as one line, without the frames of Java."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            if self._problem is not None:
                raise StreamsError(self._problem) from None
            raise StreamsError(f"app={self._layout.plan.app}: {first_line(error)}") from None

    def _query(self, program: Program, trigger: Mapping[str, Any]) -> Any:
        rows = self._spark.readStream.format("moldau").option("subscribe", ",".join(program.inputs))
        rows = rows.option("includeHeaders", "true").options(**_reader_options(self._settings))
        moved = self._checkpoint.moved_offsets(program.index)
        if moved:
            rows = rows.option("startingOffsets", json.dumps(moved))
        name = f"{program.app}-{program.index}"
        writer = rows.load().writeStream.queryName(name).trigger(**trigger)
        writer = writer.option("checkpointLocation", self._checkpoint.query(program.index))

        def run(frame: Any, batch: int) -> None:
            self._run(program, frame, batch)

        return writer.foreachBatch(run).start()

    def _run(self, program: Program, frame: Any, batch: int) -> None:
        """Run a batch, and commit it."""
        kept = self._checkpoint
        if kept.is_committed(program.index, batch):
            return
        versions = kept.versions_before(program.index, batch)
        tasks = self._layout.tasks(program)
        stage = Stage(
            name=f"{program.app}-{program.index}-{kept.run}",
            program=self._programs[program.index],
            producer=self._settings.of("producer"),
            admin=self._settings.of("admin"),
            checkpoint=kept.id if self._settings.is_exactly_once else None,
            kept=kept.state(program.index),
            batch=batch,
            run=kept.run,
            versions=versions,
            ends=kept.ends(program.index, batch),
            cache_bytes=self._cache_bytes,
            lakes=self._lakes.of(program),
        )
        chosen = ", ".join(map(str, slots(tasks)))
        rows = frame.selectExpr(
            *(each for each in COLUMNS if each != "time"),
            "unix_millis(timestamp) AS time",
            f"array({chosen})[partition] AS slot",
        )
        found = rows.repartition(tasks, "slot").mapInArrow(stage, RESULT_SCHEMA).collect()
        for row in found:
            if row["problem"] is not None:
                self._problem = row["problem"]
                raise StreamsError(row["problem"])
            versions[row["task"]] = Version(
                row["token"], tuple(row["files"]), row["snapshot_bytes"], row["delta_bytes"],
                row["times"],
            )  # fmt: skip
        kept.commit(program.index, batch, versions)
        self.records += sum(row["records"] for row in found)
        self.restored += sum(row["is_restored"] for row in found)


def _reader_options(settings: AppSettings) -> dict[str, str]:
    consumer = settings.of("consumer")
    options = {
        f"kafka.{name}": value for name, value in consumer.items() if not name.startswith(_NOT_READ)
    }
    options.setdefault("kafka.isolation.level", "read_committed")
    options["startingOffsets"] = consumer.get("auto.offset.reset", "earliest")
    return options


def _error_of(step: Callable[[], object]) -> Exception | None:
    """Call the step, and return the error of Spark that it raised."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        step()
    except (PySparkException, Py4JError) as error:
        found: Exception = error
        return found
    return None
