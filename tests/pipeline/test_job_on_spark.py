"""A job of a pipeline with a real Spark: a script that reads and writes topics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipeline.files import JOB
from tests.pipeline.running import Folder, wait_until

pytestmark = [pytest.mark.real, pytest.mark.deep]

_PATIENCE_S = 600.0
"""A JVM on a busy machine takes minutes."""
_SPARK = """\
from pyspark.sql import SparkSession

from moldau.spark import cluster_options

spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.format("moldau").options(
    **cluster_options(),
    **{"kafka.group.id": "upper", "subscribe": "lines", "startingOffsets": "earliest"},
)
(
    lines.load()
    .selectExpr("upper(CAST(value AS STRING)) AS value")
    .writeStream.format("moldau")
    .options(**cluster_options(), topic="upper")
    .option("checkpointLocation", "checkpoint")
    .start()
    .awaitTermination()
)
"""


def test_a_script_of_pyspark_reads_and_writes_topics(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    folder = Folder(tmp_path / "words")
    folder.path.mkdir()
    for name, text in (
        ("pipeline.yaml", JOB),
        ("upper.py", _SPARK),
        ("input.txt", "to\nbe\n"),
    ):
        (folder.path / name).write_text(text)
    out = folder.path / "out.txt"

    def lag() -> int | None:
        rows = json.loads(folder.moldau("pipeline", "status", "--json"))
        found: int | None = next(each["lag"] for each in rows if each["part"] == "make-upper")
        return found

    with folder.running() as run:
        wait_until(
            lambda: out.exists() and set(out.read_text().split()) >= {"TO", "BE"},
            "output",
            _PATIENCE_S,
        )
        wait_until(lambda: lag() == 0, "the lag of the job's group", _PATIENCE_S)
        run.stop()
    assert not any("is killed" in each for each in run.said)
