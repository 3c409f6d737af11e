"""Spark's own `format("kafka")` and ours on the same topics; one JSON object of findings.

    python -m tests.conformance.programs.stock_spark BOOTSTRAP TOPIC FOLDER JARS

It is a process of its own: the jars have to be there when Java starts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from moldau.spark.session import new_session
from tests.conformance.programs import stock_spark_cases
from tests.conformance.programs.stock_spark_cases import Bench

ROWS = 200


def main(bootstrap: str, topic: str, folder: str, jars: str) -> None:
    session = new_session(
        "stock-kafka",
        master="local[2]",
        conf={
            "spark.jars": jars,
            "spark.driver.memory": "1g",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    try:
        found = findings(Formats(session, bootstrap, topic, Path(folder)))
        cases = Bench(session, bootstrap, topic, Path(folder, "cases"))
        found["cases"] = stock_spark_cases.findings(cases)
        print("FOUND " + json.dumps(found))
    finally:
        session.stop()


class Formats:
    """Reads and writes of one topic by either format."""

    def __init__(self, session: Any, bootstrap: str, topic: str, folder: Path) -> None:
        self.session = session
        self.bootstrap = bootstrap
        self.topic = topic
        self.folder = folder

    def options(self, **more: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.topic, **more}

    def batch(self, kind: str, **more: str) -> Any:
        given = self.options(includeHeaders="true", **more)
        return self.session.read.format(kind).options(**given).load()

    def write(self, kind: str, first: int) -> None:
        rows = self.session.range(first, first + ROWS).selectExpr(
            "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value",
            "array(named_struct('key', 'h', 'value', CAST(CAST(id AS STRING) AS BINARY))) "
            "AS headers", "CAST(id % 2 AS INT) AS partition",
        )  # fmt: skip
        given = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic}
        rows.write.format(kind).options(**given).mode("append").save()

    def stream(self, *runs: tuple[str, str]) -> list[Any]:
        """Runs of one query to Parquet, each by a format, with `topicIds`; how many rows there are
        after each, or why it failed. After a run 200 records are written."""
        target = self.folder / "-".join(kind for kind, _ in runs)
        counts: list[Any] = []
        for kind, has_ids in runs:
            # Spark's own source reads the offsets of two batches, so a run without ids has four.
            limit = "60" if has_ids == "false" else "150"
            given = self.options(startingOffsets="earliest", maxOffsetsPerTrigger=limit)
            own = {"topicIds": has_ids} if kind == "moldau" else {}
            query = (
                self.session.readStream.format(kind).options(**given, **own).load()
                .writeStream.format("parquet").option("path", str(target / "rows"))
                .option("checkpointLocation", str(target / "checkpoint"))
                .trigger(availableNow=True).start()
            )  # fmt: skip
            try:
                query.awaitTermination()
            except Exception as error:
                counts.append("$ids" if "$ids" in str(error) else str(error)[:2000])
                continue
            rows = self.session.read.parquet(str(target / "rows"))
            counts.append([rows.count(), rows.select("partition", "offset").distinct().count()])
            self.write(kind, 1_000)
        return counts


def findings(formats: Formats) -> dict[str, Any]:
    """Each under a name that the test knows."""
    formats.write("kafka", 0)
    formats.write("moldau", ROWS)
    stock, ours = formats.batch("kafka"), formats.batch("moldau")
    found: dict[str, Any] = {
        "schemas": [stock.schema.simpleString(), ours.schema.simpleString()],
        "rows": [stock.count(), ours.count()],
        "only_stock": stock.exceptAll(ours).count(),
        "only_ours": ours.exceptAll(stock).count(),
    }
    ends = json.dumps({formats.topic: {"0": 40, "1": -1}})
    starts = json.dumps({formats.topic: {"0": 10, "1": 190}})
    found["ranges"] = [
        formats.batch(kind, startingOffsets=starts, endingOffsets=ends, minPartitions="5").count()
        for kind in ("kafka", "moldau")
    ]
    stock_run, ours_run, plain_run = ("kafka", ""), ("moldau", "true"), ("moldau", "false")
    found["streams"] = [
        formats.stream(stock_run, stock_run),
        formats.stream(ours_run, ours_run),
        formats.stream(stock_run, ours_run, stock_run, plain_run, stock_run),
    ]
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
