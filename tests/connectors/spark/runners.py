"""Runners of Spark connectors, started without a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.messages import SOURCE, START, STOP
from moldau.connectors.spark.process import RunnerProcess
from moldau.connectors.spark.runner_client import make_transport
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.errors import ConfigError
from moldau.runtime.node_processes import free_ports
from moldau.runtime.real import RealClock
from moldau.spark.java import find_java
from tests.spark.conftest import QUICK_JAVA
from tests.spark.topics import HasAddress

SMALL = {
    "spark.master": "local[2]",
    "spark.conf.driver.bindAddress": "127.0.0.1",
    "spark.conf.driver.host": "127.0.0.1",
    "spark.conf.driver.memory": "512m",
    "spark.conf.driver.extraJavaOptions": QUICK_JAVA,
    "spark.conf.sql.shuffle.partitions": "2",
    # By default all take the same port. Of two that start together, PySpark then takes the first
    # for the second, whose token it refuses.
    "spark.conf.local.connect.server.port": str(free_ports(1)[0]),
}


def need_spark() -> None:
    """Skips where there is no Spark or no Java."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    try:
        find_java()
    except ConfigError as error:
        pytest.skip(str(error))


def orders_lake(topic: str, folder: Path, **more: str) -> dict[str, str]:
    """The config of the docs, with another topic and other directories."""
    return {
        "connector.class": "SparkSinkConnector",
        "topics": topic,
        "value.format": "json",
        "value.schema": "id BIGINT, amount DOUBLE, at TIMESTAMP",
        "sink.format": "parquet",
        "sink.path": str(folder / "orders"),
        "trigger": "available-now",
        "checkpoint.location": str(folder / "checkpoints"),
        **SMALL,
        **more,
    }


def orders(count: int, start: int = 0) -> list[bytes]:
    return [
        json.dumps({"id": each, "amount": each / 2, "at": "2026-11-23T10:00:00Z"}).encode()
        for each in range(start, start + count)
    ]


def ids_in(folder: Path) -> list[int]:
    """What the committed files hold, as Spark's log of them has it: every tenth file of the log
    repeats what is in those before."""
    pq = pytest.importorskip("pyarrow.parquet")
    paths = {
        json.loads(line)["path"].removeprefix("file://")
        for log in (folder / "_spark_metadata").iterdir()
        if not log.name.startswith(".")
        for line in log.read_text().splitlines()[1:]
    }
    found: list[int] = []
    for path in paths:
        found += pq.ParquetFile(path).read(["id"]).column("id").to_pylist()
    return sorted(found)


class Events:
    """What a runner told, in its order."""

    def __init__(self, process: RunnerProcess) -> None:
        self.process = process
        self.all: list[dict[str, Any]] = []

    def until_over(self, timeout_s: float = 240) -> str:
        """Whether it has finished or failed, as a word."""
        deadline = RealClock.monotonic() + timeout_s
        while True:
            found = self.process.take(max(0.1, deadline - RealClock.monotonic()))
            assert found is not None, f"neither the end nor a failure in time, but {self.all}"
            self.all.append(found)
            if found["type"] in ("finished", "failed"):
                return str(found["type"])
            assert found["type"] != "end", f"the runner ended, and told {self.all}"

    def until(self, kind: str, timeout_s: float = 240) -> dict[str, Any]:
        """The next event of this type; fails at once when the runner has failed or ended."""
        deadline = RealClock.monotonic() + timeout_s
        while True:
            found = self.process.take(max(0.1, deadline - RealClock.monotonic()))
            assert found is not None, f"no {kind} in time, but {self.all}"
            assert found["type"] != "end", f"the runner ended, and told {self.all}"
            self.all.append(found)
            if found["type"] == kind:
                return found
            assert found["type"] != "failed", found["cause"]

    @property
    def rows(self) -> int:
        """How many records the batches had."""
        return sum(each.get("rows", 0) for each in self.all)


@contextmanager
def running(
    broker: HasAddress, name: str, config: Mapping[str, str], **more: object
) -> Iterator[Events]:
    """A runner with this config, until the block ends."""
    model = SparkSourceConfig if more.get("kind") == SOURCE else SparkSinkConfig
    process = RunnerProcess(make_transport(model.of(config), name))
    events = Events(process)
    try:
        process.send(
            {
                "type": START,
                "name": name,
                "config": dict(config),
                "clients": {"bootstrap.servers": broker.bootstrap_servers},
                "group": f"connect-{name}",
                **more,
            }
        )
        yield events
    finally:
        process.send({"type": STOP})
        process.end(60)
