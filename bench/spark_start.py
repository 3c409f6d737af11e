"""The time of a short job, including its session: a new Python and a new Java each time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from tempfile import TemporaryDirectory
from typing import Final

from bench.harness import Case, Goal, Missing, Table
from moldau.spark.class_archive import OPTIONS, find_archive
from moldau.spark.java import find_java

PLAIN: Final = "PySpark alone"
WITHOUT: Final = "new_session"
WITH: Final = "new_session after moldau spark warm"
_BUILT: Final = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").appName("start").getOrCreate()
"""
_MADE: Final = """
from moldau.spark import new_session
spark = new_session("start", master="local[2]")
"""
_JOB: Final = """
import sys
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
query = rows.selectExpr("value % 3 AS part", "timestamp").writeStream.format("parquet")
query = query.option("checkpointLocation", sys.argv[1] + "/checkpoint").trigger(availableNow=True)
query.start(sys.argv[1] + "/rows").awaitTermination()
spark.stop()
"""
_TIMEOUT_S: Final = 120


def seconds(kind: str) -> float:
    """Return the seconds of one job, from the start of its process to the end."""
    java = find_java()
    if kind == WITH and find_archive(java, os.environ) is None:
        raise Missing("no archive: moldau spark warm")
    environment: Mapping[str, str] = os.environ
    if kind != WITH:  # what Java takes where nothing is named
        usual = f"-XX:SharedArchiveFile={java.home}/lib/server/classes.jsa"
        environment = {**os.environ, OPTIONS: usual}
    job = (_BUILT if kind == PLAIN else _MADE) + _JOB
    with TemporaryDirectory(prefix="moldau-bench-") as folder:
        start = time.perf_counter()
        subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", job, folder],
            env={**environment, "JAVA_HOME": java.home},
            stderr=subprocess.DEVNULL,
            check=True,
            timeout=_TIMEOUT_S,
        )
        return time.perf_counter() - start


def tables() -> Iterator[Table]:
    cases = [Case(kind, partial(seconds, kind)) for kind in (PLAIN, WITHOUT, WITH)]
    yield Table(
        "A session and one micro-batch of ten rows",
        "s",
        cases,
        [Goal(WITH, PLAIN, ratio_at_most=0.7)],
        higher_is_better=False,
        notes=("`local[2]`; `rate-micro-batch` to Parquet, without a broker.",),
    )
