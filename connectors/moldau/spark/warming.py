"""Run a short Spark job that loads the Java classes of jobs with topics. It needs no broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

from moldau.runtime.real_files import RealFiles
from moldau.spark.session import new_session

_FORMATS: Final = ("parquet", "orc", "json", "csv")
_COUNT: Final = 100


class _Reader(DataSourceReader):  # type: ignore[misc]
    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from _rows(0)


class _StreamReader(SimpleDataSourceStreamReader):  # type: ignore[misc]
    """Gives all rows in one batch."""

    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Any], dict[str, int]]:
        return iter(_rows(start["next"])), {"next": _COUNT}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[Any]:
        return iter(_rows(start["next"]))


class Numbers(DataSource):  # type: ignore[misc]
    """A data source in Python, as `moldau` is one, with numbers in place of records."""

    @classmethod
    def name(cls) -> str:
        return "moldau-numbers"

    def schema(self) -> str:
        return "value STRING, number BIGINT, at TIMESTAMP"

    def reader(self, schema: Any) -> DataSourceReader:
        return _Reader()

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
        return _StreamReader()


def run_job(java_options: str) -> None:
    """Run the job in a Java with these options, and wait until that Java has ended."""
    session = new_session(
        "moldau-warm",
        master="local[2]",
        conf={
            "spark.driver.extraJavaOptions": java_options,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    files = RealFiles()
    folder = files.temporary_dir()
    try:
        _load_classes(session, folder)
    finally:
        java = session.sparkContext._gateway.proc
        session.stop()
        java.stdin.close()  # this ends Java, and Java writes the archive when it ends
        java.wait(120)
        files.remove_tree(folder)


def _load_classes(session: Any, folder: str) -> None:
    session.dataSource.register(Numbers)
    rows = session.readStream.format(Numbers.name()).load()
    parsed = rows.selectExpr("from_json(value, 'id BIGINT, amount DOUBLE') AS v", "number", "at")
    flat = parsed.selectExpr("v.*", "number % 3 AS part", "at")
    _run(flat.writeStream.format("parquet").option("path", f"{folder}/lake"), f"{folder}/one")
    sums = flat.groupBy("part").count()
    _run(sums.writeStream.outputMode("complete").foreachBatch(_collect), f"{folder}/two")
    batch = session.read.format(Numbers.name()).load()
    for name in _FORMATS:
        batch.write.format(name).partitionBy("number").save(f"{folder}/{name}")
        session.read.format(name).load(f"{folder}/{name}").groupBy("number").count().collect()


def _run(writer: Any, checkpoint: str) -> None:
    writer.option("checkpointLocation", checkpoint).trigger(
        availableNow=True
    ).start().awaitTermination()


def _collect(rows: Any, number: int) -> None:
    rows.toArrow()


def _rows(start: int) -> list[tuple[Any, ...]]:
    from datetime import UTC, datetime

    at = datetime(2026, 1, 1, tzinfo=UTC)
    return [(f'{{"id": {each}, "amount": 0.5}}', each % 5, at) for each in range(start, _COUNT)]
