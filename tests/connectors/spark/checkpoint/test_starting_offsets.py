"""Altered offsets: the query begins at one offset for each partition that it reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.client import TopicPartition
from moldau.client.sync import Admin
from moldau.connect.errors import ConnectError
from moldau.connectors.spark.checkpoint import starting_offsets
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.checkpoint.generations import Generation
from moldau.connectors.spark.checkpoint.starting_offsets import complete_offsets, present_partitions
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.connector import SparkSinkConnector
from moldau.testing import SyncEmbeddedBroker
from tests.connectors.spark.orders_lake import ORDERS_LAKE
from tests.connectors.spark.runners import ids_in, need_spark, orders, orders_lake, running
from tests.spark.topics import make_topic, send

TWO = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
AT_5 = {"orders": {"0": 5}}


@pytest.mark.parametrize(
    ("starting_offsets", "expected"),
    [("earliest", -2), ("latest", -1), ('{"orders":{"0":1,"1":9}}', 9), ('{"orders":{"0":1}}', -2)],
)
def test_a_partition_without_an_offset_begins_as_the_config_says(
    starting_offsets: str, expected: int
) -> None:
    found = complete_offsets(AT_5, TWO, starting_offsets)

    assert found == {"orders": {"0": 5, "1": expected}}


def test_a_partition_that_does_not_exist_is_left_out() -> None:
    given = {"orders": {"0": 5, "7": 1}, "old": {"0": 3}}

    assert complete_offsets(given, TWO[:1], "earliest") == AT_5


@pytest.mark.parametrize(("has_read", "expected"), [(False, -1), (True, -2)])
def test_a_partition_that_was_added_since_is_read_from_its_first_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_read: bool, expected: int
) -> None:
    commits = tmp_path / "lake" / "gen-0" / "rows" / "commits"
    if has_read:
        commits.mkdir(parents=True)
        (commits / "0").touch()
    monkeypatch.setattr(starting_offsets, "present_partitions", lambda *_: TWO)
    config = SparkSinkConfig.of({**ORDERS_LAKE, "starting.offsets": "latest"})
    generations = CheckpointFolder(str(tmp_path), "lake").generations

    found = starting_offsets.with_all_partitions(generations, Generation(1, AT_5), config, {})

    assert found == Generation(1, {"orders": {"0": 5, "1": expected}})


def test_the_partitions_are_those_of_the_brokers(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    make_topic(moldau_broker, moldau_topic, 3)
    config = SparkSinkConfig.of(orders_lake(moldau_topic, tmp_path))
    clients = {"bootstrap.servers": moldau_broker.bootstrap_servers}

    expected = [TopicPartition(moldau_topic, number) for number in range(3)]
    assert present_partitions(config, clients) == expected


@pytest.mark.parametrize(
    "changed", [{}, {"topics": "", "topics.regex": "ord.*"}, {"spark.task.per.topic": "true"}]
)
def test_offsets_of_a_topic_that_is_not_read_change_nothing(
    tmp_path: Path, changed: dict[str, str]
) -> None:
    more = {"name": "lake", "checkpoint.location": str(tmp_path), "sink.path": "/data/${topic}"}
    props = {**ORDERS_LAKE, **more, **changed}
    if "spark.task.per.topic" not in changed:
        props["sink.path"] = "/data/orders"

    with pytest.raises(ConnectError, match="no topics of the connector"):
        SparkSinkConnector().alter_offsets(props, {TWO[0]: 3, TopicPartition("others", 0): 3})

    assert list(tmp_path.iterdir()) == []


def test_a_refusal_changes_the_offsets_of_no_topic(tmp_path: Path) -> None:
    more = {"name": "shop", "checkpoint.location": str(tmp_path), "tasks.max": "2"}
    each = {"spark.task.per.topic": "true", "sink.path": "/data/${topic}"}
    props = {**ORDERS_LAKE, **more, **each, "topics": "customers,orders"}
    (tmp_path / "shop" / "gen-0").mkdir(parents=True)

    with pytest.raises(ConnectError, match=r"begun with spark\.task\.per\.topic=false"):
        SparkSinkConnector().alter_offsets(props, {})
    remote = {**props, "checkpoint.location": "s3://bucket/checkpoints"}
    with pytest.raises(ConnectError, match="cannot be altered here"):
        SparkSinkConnector().alter_offsets(remote, {})

    assert [each.name for each in (tmp_path / "shop").iterdir()] == ["gen-0"]


def test_topics_that_left_the_config_are_not_read_on(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path), "lake")
    folder.begin_generation({"orders": {"0": 5}, "old": {"0": 3}})
    props = {**ORDERS_LAKE, "name": "lake", "checkpoint.location": str(tmp_path)}

    SparkSinkConnector().alter_offsets(props, {TWO[1]: 7})

    assert folder.generations.current().starting == {"orders": {"0": 5, "1": 7}}
    assert "old" not in json.dumps(folder.generations.current().starting)


@pytest.mark.real
def test_a_query_continues_with_some_offsets_altered_and_a_partition_added(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    need_spark()
    make_topic(moldau_broker, moldau_topic, 2)
    send(moldau_broker, moldau_topic, orders(10))
    send(moldau_broker, moldau_topic, orders(10, 10), partition=1)
    config = orders_lake(moldau_topic, tmp_path)
    with running(moldau_broker, moldau_topic, config) as events:
        events.until("finished")
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        admin.create_partitions(moldau_topic, 3)
    send(moldau_broker, moldau_topic, orders(10, 20), partition=2)

    SparkSinkConnector().alter_offsets(
        {**config, "name": moldau_topic}, {TopicPartition(moldau_topic, 0): 8}
    )
    with running(moldau_broker, moldau_topic, config) as events:
        events.until("finished")

    assert ids_in(tmp_path / "orders") == sorted([*range(30), 8, 9])
