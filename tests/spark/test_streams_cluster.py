"""A cluster of two workers gives what the embedded engine gives, also when it loses parts."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps
from tests.spark.clusters import EXECUTOR, WORKER, above, standalone_cluster
from tests.spark.streams_driver import Engines, driver

pytestmark = [pytest.mark.real, pytest.mark.deep]


def test_two_workers_give_what_the_embedded_engine_gives_although_parts_are_killed(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    engines = Engines(moldau_broker, moldau_topic, tmp_path)
    gate = apps.Gate(tmp_path / "gate")
    engines.write(0, 300)

    with (
        standalone_cluster(tmp_path) as cluster,
        driver(engines.servers, engines.on_spark, tmp_path, gate, cluster.master) as spark,
    ):
        engines.check(spark)
        tasks = {each.parent.name for each in tmp_path.glob("checkpoint/*/state/*/*.delta")}
        assert len(tasks) == 2 * apps.PARTITIONS

        engines.write(300, 100, waits="k0")
        spark.run_until(lambda: bool(gate.is_reached and gate.waiting()))
        # In the middle of a batch; the executor's stores are read again from the checkpoint.
        os.kill(above(gate.waiting()[0], EXECUTOR), signal.SIGKILL)
        gate.open()
        engines.check(spark)

        gate = apps.Gate(tmp_path / "gate")
        engines.write(400, 50, waits="k0")
        spark.run_until(lambda: bool(gate.is_reached and gate.waiting()))
        cluster.kill_worker(above(gate.waiting()[0], WORKER))
        gate.open()
        engines.check(spark)
