"""A driver that is killed in the middle of a batch, after one of two tasks has committed it: the
next one goes on, and each record counts once, in the stores and in the topics."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.records import partition_for_key
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps
from tests.spark.streams_driver import Engines, driver

pytestmark = [pytest.mark.real, pytest.mark.deep]


def test_each_record_counts_once_although_a_driver_is_killed_after_a_task_has_committed(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    engines = Engines(moldau_broker, moldau_topic, tmp_path)
    gate = apps.Gate(tmp_path / "gate")
    engines.write(0, 300, waits="k0")
    other = 1 - partition_for_key(b"k0", apps.PARTITIONS)

    with driver(engines.servers, engines.on_spark, tmp_path, gate) as spark:
        spark.run_until(lambda: gate.is_reached and engines.committed(other) is not None)
        assert not list(tmp_path.glob("checkpoint/0/commits/*"))
    gate.open()
    with driver(engines.servers, engines.on_spark, tmp_path, gate) as spark:
        engines.check(spark)
