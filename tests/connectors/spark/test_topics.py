"""`spark.task.per.topic`: a config for each topic, and a checkpoint for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.client import TopicPartition
from moldau.connect.api import ConnectError
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder
from moldau.connectors.spark.checkpoint.generations import Generation
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.connector import SparkSinkConnector
from moldau.connectors.spark.topics import TASK_TOPIC, topic_names
from moldau.errors import ConfigError
from tests.connectors.spark.orders_lake import ORDERS_LAKE

EACH = {
    **ORDERS_LAKE,
    "name": "shop",
    "topics": "orders, customers",
    "tasks.max": "2",
    "spark.task.per.topic": "true",
    "sink.path": "/data/${topic}",
}
JDBC = {"sink.format": "jdbc", "sink.table": "rows", "jdbc.url": "sqlite://"}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"tasks.max": "1"}, "tasks.max has to be at least 2"),
        ({"topics": "", "topics.regex": "o.*"}, "use topics in place of topics.regex"),
        ({"sink.path": "/data/rows"}, r"put \$\{topic\} into it.*directory of parquet"),
        ({"sink.path": "/data/rows", "sink.format": "delta"}, "directory of delta"),
        (
            {"sink.format": "iceberg", "sink.table": "a.b", "sink.option.uri": "x"},
            "one table of iceberg",
        ),
        ({**JDBC, "sink.mode": "overwrite", "output.mode": "complete"}, "one table of jdbc"),
        ({"starting.offsets": '{"orders":{"0":1}}'}, "customers is missing"),
        ({"spark.task.per.topic": "false"}, r"\$\{topic\} is for spark.task.per.topic=true"),
    ],
)
def test_what_does_not_go_together_is_named(changed: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        SparkSinkConfig.of({**EACH, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"topics": "orders", "tasks.max": "1"},
        JDBC,
        {"sink.format": "topic", "sink.topic": "copies"},
        {"sink.format": "noop", "sink.path": ""},
    ],
)
def test_what_goes_together_is_good(changed: dict[str, str]) -> None:
    assert SparkSinkConfig.of({**EACH, **changed}).task_per_topic


def test_a_task_has_one_topic_whatever_their_order() -> None:
    connector = SparkSinkConnector()
    for topics in ("orders,customers", "customers,orders,orders"):
        connector.props = {**EACH, "topics": topics}
        assert [each[TASK_TOPIC] for each in connector.task_configs(2)] == topic_names(EACH)
    connector.props = {**ORDERS_LAKE, "name": "lake"}
    assert connector.task_configs(2) == [connector.props]


def test_the_settings_of_a_topic_name_it_everywhere() -> None:
    starting = '{"orders":{"0":7},"customers":{"0":0}}'
    more = {"sink.table": "raw_${topic}", "sink.topic": "${topic}-${topic}"}
    whole = SparkSinkConfig.of({**EACH, **more, "starting.offsets": starting})

    found = whole.for_topic("orders")

    assert found.sink_path == "/data/orders"
    assert found.sink_table == "raw_orders"
    assert found.sink_topic == "orders-orders"
    assert found.starting_offsets == '{"orders": {"0": 7}}'
    assert found.originals["topics"] == "orders"
    assert not found.task_per_topic


def test_each_topic_has_a_folder_and_names_of_its_own(tmp_path: Path) -> None:
    location = str(tmp_path)
    whole, topic = CheckpointFolder(location, "shop"), CheckpointFolder(location, "shop", "b")

    assert topic.generations.path(Generation()) == str(tmp_path / "shop" / "topics" / "b" / "gen-0")
    assert CheckpointFolder("s3://b/c", "shop", "b").generations.path(Generation()) == (
        "s3://b/c/shop/topics/b/gen-0"
    )
    assert whole.generations.query_name(Generation()) == "shop"
    assert whole.generations.query_name(Generation(1)) == "shop-1", (
        "a generation of before there were tokens"
    )
    assert whole.generations.query_name(Generation(1, {}, "ab")) == "shop-1-ab"
    assert topic.generations.query_name(Generation()) == "shop:b"
    other = CheckpointFolder(location, "shop", "b-1")
    assert topic.generations.query_name(Generation(1)) != other.generations.query_name(Generation())


def test_a_number_that_was_removed_is_another_query_when_it_comes_again(tmp_path: Path) -> None:
    names = set()
    for folder in ("a", "b"):
        found = CheckpointFolder(str(tmp_path / folder), "shop")
        found.begin_generation({})
        names.add(found.generations.query_name(found.generations.current()))
    assert len(names) == 2


def test_offsets_of_one_topic_leave_the_others_alone(tmp_path: Path) -> None:
    props = {**EACH, "checkpoint.location": str(tmp_path)}

    def numbers() -> list[int]:
        topics = topic_names(props)
        return [
            CheckpointFolder(str(tmp_path), "shop", each).generations.current().number
            for each in topics
        ]

    SparkSinkConnector().alter_offsets(props, {TopicPartition("orders", 0): 3})
    assert numbers() == [0, 1]
    assert CheckpointFolder(str(tmp_path), "shop", "orders").generations.current().starting == {
        "orders": {"0": 3}
    }

    SparkSinkConnector().alter_offsets(props, {})
    assert numbers() == [1, 2]
    with pytest.raises(ConnectError, match="no topics of the connector"):
        SparkSinkConnector().alter_offsets(props, {TopicPartition("others", 0): 3})
    assert numbers() == [1, 2]


def test_a_checkpoint_of_the_other_kind_is_refused(tmp_path: Path) -> None:
    location = str(tmp_path)
    (tmp_path / "lake" / "gen-0").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"begun with spark\.task\.per\.topic=false"):
        CheckpointFolder(location, "lake", "orders").acquire_for_query()

    each, whole = CheckpointFolder(location, "shop", "orders"), CheckpointFolder(location, "shop")
    each.acquire_for_query()
    each.lock.release()
    with pytest.raises(ConfigError, match=r"begun with spark\.task\.per\.topic=true"):
        whole.acquire_for_query()
    with pytest.raises(ConfigError, match=r"begun with spark\.task\.per\.topic=true"):
        whole.begin_generation({})
