"""Generations and the lock of a connector's checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client import TopicPartition
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.checkpoint.generations import Generation
from moldau.connectors.spark.checkpoint.sink_directory import SinkDirectory
from moldau.connectors.spark.connector import SparkSinkConnector
from moldau.errors import ConfigError
from tests.connectors.spark.orders_lake import ORDERS_LAKE


def _batches(folder: Path, count: int) -> None:
    """What Spark leaves of so many batches of ten records."""
    for name in ("offsets", "commits"):
        (folder / "rows" / name).mkdir(parents=True)
    for number in range(count):
        offsets = f'v1\n{{"batchWatermarkMs":0}}\n{{"orders":{{"0":{number * 10 + 10},"1":7}}}}'
        (folder / "rows" / "offsets" / str(number)).write_text(offsets)
        (folder / "rows" / "commits" / str(number)).write_text("v1\n{}")


def test_a_new_generation_begins_at_its_offsets(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path), "lake")
    assert folder.generations.current() == Generation()
    assert folder.generations.path(folder.generations.current()) == str(tmp_path / "lake" / "gen-0")

    new = folder.begin_generation({"orders": {"0": 5}})

    assert new == CheckpointFolder(str(tmp_path), "lake").generations.current()
    assert folder.generations.path(new).endswith("gen-1")


def test_offsets_that_are_altered_leave_the_others_where_they_were(tmp_path: Path) -> None:
    _batches(tmp_path / "lake" / "gen-0", 2)
    props = {**ORDERS_LAKE, "name": "lake", "checkpoint.location": str(tmp_path)}

    assert SparkSinkConnector().alter_offsets(props, {TopicPartition("orders", 0): 3})

    folder = CheckpointFolder(str(tmp_path), "lake")
    assert folder.generations.current() == Generation(1, {"orders": {"0": 3, "1": 7}})


def test_offsets_that_are_deleted_begin_as_a_new_query(tmp_path: Path) -> None:
    _batches(tmp_path / "lake" / "gen-0", 1)
    props = {**ORDERS_LAKE, "name": "lake", "checkpoint.location": str(tmp_path)}
    wanted = dict.fromkeys([TopicPartition("orders", 0), TopicPartition("orders", 1)])

    SparkSinkConnector().alter_offsets(props, wanted)

    assert CheckpointFolder(str(tmp_path), "lake").generations.current() == Generation(1, {})


def test_two_connectors_may_not_write_into_one_directory(tmp_path: Path) -> None:
    def claim(path: str, connector: str) -> None:
        folder = CheckpointFolder(str(tmp_path), connector)
        SinkDirectory(path, connector).claim(folder.generations)

    path = str(tmp_path / "all")
    claim(path, "orders")
    claim(f"file://{path}", "orders")

    with pytest.raises(ConfigError, match=r"another connector writes.*orders"):
        claim(path, "a/b c")

    claim(path, "orders")
    claim(str(tmp_path / "other"), "a/b c")
    claim("s3://bucket/all", "orders")


def test_two_may_not_work_on_one_checkpoint(tmp_path: Path) -> None:
    first, second = CheckpointFolder(str(tmp_path), "l"), CheckpointFolder(str(tmp_path), "l")
    first.acquire_for_query()

    with pytest.raises(ConfigError, match="another query works on this checkpoint"):
        second.acquire_for_query()
    first.lock.release()
    second.acquire_for_query()
    second.lock.release()


def test_a_checkpoint_at_a_uri_keeps_its_offsets() -> None:
    folder = CheckpointFolder("s3://bucket/points", "lake")

    assert folder.generations.path(Generation()) == "s3://bucket/points/lake/gen-0"
    with pytest.raises(ConfigError, match="choose another"):
        folder.begin_generation({})
