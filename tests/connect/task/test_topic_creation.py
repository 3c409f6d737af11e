"""Which settings the topics of a source are created with."""

from __future__ import annotations

import pytest

from moldau.connect.task.topic_creation import topic_groups
from moldau.errors import ConfigError

SETTINGS = {
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.groups": "logs",
    "topic.creation.logs.partitions": "6",
}


def partitions_of(topic: str, **logs: str) -> int:
    given = {f"topic.creation.logs.{name}": text for name, text in logs.items()}
    groups = topic_groups({**SETTINGS, **given})
    return next(each for each in groups if each.matches(topic)).new_topic(topic).partitions


def test_patterns_are_those_of_java() -> None:
    assert partitions_of("logs-a", include=r"\Qlogs-\E\p{Lower}+") == 6
    assert partitions_of("logs-1", include=r"\Qlogs-\E\p{Lower}+") == 1
    assert partitions_of("logs-a", include="logs-.*", exclude=r"logs-[a-z&&[^b]]") == 1
    assert partitions_of("logs-b", include="logs-.*", exclude=r"logs-[a-z&&[^b]]") == 6


def test_a_pattern_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match=r"topic\.creation\.logs\.include"):
        partitions_of("logs-a", include="logs-(")
