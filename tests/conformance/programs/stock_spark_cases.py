"""Cases that Spark's own Kafka format and ours must answer in the same way.

Each case of `CASES` runs once for each format, on topics of its own if it writes. Its finding is
JSON: rows, counts, or the word `fails`.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from moldau.client.sync import Admin, Producer
from tests.connect.processes import wait_until
from tests.spark.topics import (
    make_topic,
    numbers,
    open_transaction,
    send,
    send_aborted,
    send_committed,
)

FORMATS: Final = ("kafka", "moldau")
FAILS: Final = "fails"
CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
EARLY_MS: Final = int(time.time()) * 1000 - 10_000_000
MIDDLE_MS: Final = EARLY_MS + 1_000_000
LATE_MS: Final = EARLY_MS + 2_000_000
"""The shared topic has records of the early time and of the late time."""
AFTER_MS: Final = EARLY_MS + 3_000_000
_RUN_S: Final = 60


class Bench:
    """One session, and topics that the cases share."""

    def __init__(self, session: Any, bootstrap: str, prefix: str, folder: Path) -> None:
        self.session = session
        self.bootstrap_servers = bootstrap
        self.folder = folder
        self.prefix = f"{prefix}-cases"
        self.shared = f"{self.prefix}-a"

    def admin(self) -> Admin:
        return Admin(bootstrap_servers=self.bootstrap_servers)

    def fill(self) -> None:
        """Make the shared topic, which has early and late records, and one with a similar name."""
        make_topic(self, self.shared, 3)
        make_topic(self, f"{self.shared}b", 1)
        send(self, f"{self.shared}b", numbers(1))
        with Producer(bootstrap_servers=self.bootstrap_servers) as producer:
            for partition in range(3):
                for number in range(60):
                    at = EARLY_MS if number < 40 else LATE_MS
                    producer.send(
                        self.shared,
                        b"%d" % number,
                        partition=partition,
                        timestamp_ms=at + number,
                    )
            producer.flush()

    def topic(self, case: str, kind: str, partitions: int = 1) -> str:
        name = f"{self.prefix}-{case}-{kind}"
        make_topic(self, name, partitions)
        return name

    def options(self, topic: str | None, given: dict[str, str]) -> dict[str, str]:
        own = {"kafka.bootstrap.servers": self.bootstrap_servers, **given}
        return own if topic is None else {**own, "subscribe": topic}

    def read(self, kind: str, topic: str | None, **given: str) -> Any:
        return self.session.read.format(kind).options(**self.options(topic, given)).load()

    def stream(self, kind: str, topic: str, **given: str) -> Any:
        return self.session.readStream.format(kind).options(**self.options(topic, given)).load()

    def start(self, rows: Any, topic: str, **trigger: Any) -> Any:
        target = self.folder / topic
        return (
            rows.select("topic", "partition", "offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(target / "checkpoint"))
            .trigger(**trigger)
            .start(str(target / "rows"))
        )

    def run(self, rows: Any, topic: str) -> Any:
        """Read what is there; return the offsets of this and of earlier runs, or that it failed."""
        try:
            assert self.start(rows, topic, availableNow=True).awaitTermination(_RUN_S)
        except Exception as error:
            if isinstance(error, AssertionError):
                raise
            return FAILS
        return self.offsets(topic)

    def offsets(self, topic: str) -> list[list[int]]:
        """Partition and offset of the rows that the runs have written, sorted."""
        rows = self.session.read.parquet(str(self.folder / topic / "rows"))
        return sorted([row.partition, row.offset] for row in rows.collect())


Case = Callable[[Bench, str], Any]


def _counts(rows: Any) -> Any:
    """How many rows each partition of each topic has, or that the read failed."""
    try:
        found = rows().select("topic", "partition").collect()
    except Exception:
        return FAILS
    counts = Counter((row.topic[-2:], row.partition) for row in found)
    return sorted([*where, count] for where, count in counts.items())


def _batch(**given: str) -> Case:
    """A batch read of the shared topic with these options."""
    return lambda bench, kind: _counts(lambda: bench.read(kind, bench.shared, **given))


def _by_partition(option: str, *numbers: int) -> Case:
    """A batch read with a number for each partition of the shared topic."""

    def case(bench: Bench, kind: str) -> Any:
        text = json.dumps({bench.shared: {str(key): each for key, each in enumerate(numbers)}})
        return _counts(lambda: bench.read(kind, bench.shared, **{option: text}))

    return case


def pattern(bench: Bench, kind: str) -> Any:
    return _counts(lambda: bench.read(kind, None, subscribePattern=f"{bench.shared}.*"))


def assign(bench: Bench, kind: str) -> Any:
    return _counts(lambda: bench.read(kind, None, assign=json.dumps({bench.shared: [0, 2]})))


def codecs(bench: Bench, kind: str) -> Any:
    """What is written with each codec is read by both formats."""
    topics = [bench.topic(codec, kind) for codec in CODECS]
    rows = bench.session.range(0, 300, 1, 1).selectExpr("CAST(id AS STRING) AS value")
    for codec, topic in zip(CODECS, topics, strict=True):
        given = {"topic": topic, "kafka.compression.type": codec}
        rows.write.format(kind).options(**bench.options(None, given)).mode("append").save()
    every = ",".join(topics)
    return [bench.read(each, every).count() for each in FORMATS]


def stream_write(bench: Bench, kind: str) -> Any:
    topic = bench.topic("copy", kind)
    query = (
        bench.stream(kind, bench.shared, startingOffsets="earliest")
        .selectExpr("CAST(partition AS STRING) AS key", "value")
        .writeStream.format(kind)
        .options(**bench.options(None, {"topic": topic}))
        .option("checkpointLocation", str(bench.folder / topic))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    assert query.awaitTermination(_RUN_S)
    isolated = {"kafka.isolation.level": "read_committed"}
    found = []
    for each in FORMATS:  # ours writes in transactions, and Spark's own reads those
        rows = bench.read(each, topic, **isolated)
        values = rows.selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)").collect()
        found.append(sorted([*row] for row in values))
    return found


def processing_time(bench: Bench, kind: str) -> Any:
    """Small batches, and records that arrive while the query runs."""
    topic = bench.topic("intervals", kind, 2)
    send(bench, topic, numbers(30))
    rows = bench.stream(kind, topic, startingOffsets="earliest", maxOffsetsPerTrigger="12")
    query = bench.start(rows, topic, processingTime="200 milliseconds")

    def has_read(count: int) -> bool:
        return bool(sum(each["numInputRows"] for each in query.recentProgress) >= count)

    try:
        wait_until(lambda: has_read(30), "the first records", _RUN_S)
        send(bench, topic, numbers(10), partition=1)
        wait_until(lambda: has_read(40), "the later records", _RUN_S)
    finally:
        query.stop()
    return bench.offsets(topic)


def committed(bench: Bench, kind: str) -> Any:
    """Committed, aborted and open transactions: a batch of each isolation, and a stream before and
    after the open one is committed. The end is an aborted one, of which only offsets are read."""
    topic = bench.topic("committed", kind, 2)
    isolated = {"kafka.isolation.level": "read_committed"}
    rows = bench.stream(kind, topic, startingOffsets="earliest", **isolated)
    send_committed(bench, topic, numbers(5))
    send_aborted(bench, topic, numbers(7))
    send_aborted(bench, topic, numbers(3), 1)
    with open_transaction(bench, topic, numbers(4)) as producer:
        send_committed(bench, topic, numbers(6))
        found: list[Any] = []
        for given in ({}, isolated):
            counts = bench.read(kind, topic, **given).groupBy("partition").count().collect()
            found.append(sorted([*row] for row in counts))
        found.append(bench.run(rows, topic))
        producer.commit_transaction()
    send_aborted(bench, topic, numbers(2), 1)
    return [*found, bench.run(rows, topic)]


def latest(bench: Bench, kind: str) -> Any:
    """Default options: only what arrives after the first run. Then a partition is added."""
    topic = bench.topic("latest", kind)
    send(bench, topic, numbers(5))
    rows = bench.stream(kind, topic, **{"kafka.group.id": topic})
    assert bench.start(rows, topic, availableNow=True).awaitTermination(_RUN_S)
    with bench.admin() as admin:
        admin.create_partitions(topic, 2)
    send(bench, topic, numbers(4))
    send(bench, topic, numbers(6), partition=1)
    return bench.run(rows, topic)


def retention(bench: Bench, kind: str) -> Any:
    """The first records of a new partition were deleted, later also those of a known one."""
    topic = bench.topic("retention", kind)
    send(bench, topic, numbers(10))
    strict = bench.stream(kind, topic, startingOffsets="earliest")
    lenient = bench.stream(kind, topic, startingOffsets="earliest", failOnDataLoss="false")
    found = [bench.run(strict, topic)]
    with bench.admin() as admin:
        admin.create_partitions(topic, 2)
        send(bench, topic, numbers(10), partition=1)
        admin.delete_records({(topic, 1): 6})
        found.append(bench.run(strict, topic))
        send(bench, topic, numbers(10))
        admin.delete_records({(topic, 0): 15})
    return [*found, bench.run(lenient, topic)]


def recreated(bench: Bench, kind: str) -> Any:
    """A topic is made again with fewer records than the query has read."""
    topic = bench.topic("recreated", kind)
    send(bench, topic, numbers(10))
    rows = bench.stream(kind, topic, startingOffsets="earliest")
    found = [bench.run(rows, topic)]
    with bench.admin() as admin:
        admin.delete_topic(topic)
    make_topic(bench, topic, 1)
    send(bench, topic, numbers(4))
    return [*found, bench.run(rows, topic)]


CASES: Final[dict[str, Case]] = {
    "pattern": pattern,
    "assign": assign,
    "starting timestamp": _batch(startingTimestamp=str(MIDDLE_MS)),
    "ending timestamp": _batch(endingTimestamp=str(MIDDLE_MS)),
    "timestamps": _by_partition("startingOffsetsByTimestamp", MIDDLE_MS, 0, MIDDLE_MS),
    "late timestamp": _batch(startingTimestamp=str(AFTER_MS)),
    "late timestamp, latest": _batch(
        startingTimestamp=str(AFTER_MS), startingOffsetsByTimestampStrategy="latest"
    ),
    "offsets after the end": _by_partition("startingOffsets", 1000, -2, -2),
    "codecs": codecs,
    "stream write": stream_write,
    "processing time": processing_time,
    "committed": committed,
    "latest": latest,
    "retention": retention,
    "recreated": recreated,
}


def findings(bench: Bench) -> dict[str, list[Any]]:
    """What the stock format and ours gave, by case."""
    bench.fill()
    return {name: [case(bench, kind) for kind in FORMATS] for name, case in CASES.items()}
