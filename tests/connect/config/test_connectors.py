"""The settings that every connector has, and what they may not say together."""

from __future__ import annotations

import pytest

from moldau.connect.config.connectors import SinkConfig, SourceConfig, topic_groups
from moldau.connect.config.model import Problem

SINK = {"name": "s", "connector.class": "X", "topics": "a"}
SOURCE = {"name": "s", "connector.class": "X"}


def complaints(config: SinkConfig | SourceConfig) -> dict[str, str]:
    return {problem.key: problem.text for problem in (*config.problems(), *config.check())}


def test_a_minimal_config_is_sound() -> None:
    assert complaints(SinkConfig.read(SINK)) == {}
    assert complaints(SourceConfig.read(SOURCE)) == {}


@pytest.mark.parametrize(
    ("changes", "key", "text"),
    [
        ({"name": ""}, "name", "String may not be empty"),
        ({"name": "a\tb"}, "name", "control characters"),
        ({"topics": ""}, "topics", "Must configure one of topics or topics.regex"),
        ({"topics.regex": "a.*"}, "topics.regex", "mutually exclusive"),
        ({"topics": "", "topics.regex": "("}, "topics.regex", "a group is not closed"),
        ({"errors.deadletterqueue.topic.name": "a"}, "topics", "The DLQ topic 'a' may not be"),
        (
            {"topics": "", "topics.regex": "d.*", "errors.deadletterqueue.topic.name": "dlq"},
            "topics.regex",
            "may not be matched by the regex",
        ),
        ({"transforms": "a,a"}, "transforms", "Duplicate alias provided."),
        ({"tasks.max": "0"}, "tasks.max", "Value must be at least 1"),
        ({"errors.tolerance": "some"}, "errors.tolerance", "String must be one of: none, all"),
    ],
)
def test_what_is_wrong_with_a_sink(changes: dict[str, str], key: str, text: str) -> None:
    assert text in complaints(SinkConfig.read({**SINK, **changes}))[key]


def test_groups_of_topics_take_what_they_lack_from_the_default() -> None:
    logs, rest = topic_groups(
        {
            "topic.creation.groups": "logs",
            "topic.creation.default.partitions": "3",
            "topic.creation.default.replication.factor": "2",
            "topic.creation.logs.include": "log-.*, trace",
            "topic.creation.logs.exclude": "log-debug",
            "topic.creation.logs.partitions": "-1",
            "topic.creation.logs.cleanup.policy": "compact",
        }
    )

    assert (logs.partitions, logs.replication_factor) == (-1, 2)
    assert logs.topic_configs == {"cleanup.policy": "compact"}
    assert [logs.includes(topic) for topic in ("log-a", "trace", "log-debug", "x")] == [
        True,
        True,
        False,
        False,
    ]
    assert (rest.name, rest.partitions, rest.includes("x")) == ("default", 3, True)


def test_what_is_wrong_with_groups_of_topics() -> None:
    config = SourceConfig.read(
        {
            **SOURCE,
            "topic.creation.groups": "a",
            "topic.creation.default.partitions": "0",
            "topic.creation.a.include": "(",
            "topic.creation.a.replication.factor": "many",
        }
    )

    found = complaints(config)

    assert "Value must be positive" in found["topic.creation.default.partitions"]
    assert "Missing required" in found["topic.creation.default.replication.factor"]
    assert "a group is not closed" in found["topic.creation.a.include"]
    assert "Not a number of type SHORT" in found["topic.creation.a.replication.factor"]


def test_groups_are_not_asked_for_where_no_topic_setting_is() -> None:
    assert list(SourceConfig.read({**SOURCE, "tasks.max": "2"}).check()) == []


def test_a_problem_reads_as_one_line() -> None:
    assert str(Problem("a.b", "is wrong")) == "a.b: is wrong"
