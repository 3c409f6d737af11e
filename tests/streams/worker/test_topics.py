"""How many partitions the topics of an app have, and what is refused."""

from __future__ import annotations

import pytest

from moldau.streams.plan.partitions import partition_counts
from moldau.streams.worker.topics import (
    BadTopics,
    InternalTopic,
    check_existing,
    internal_topics,
)
from tests.streams.worker.counting import word_count


def test_an_internal_topic_of_another_width_is_told() -> None:
    with pytest.raises(BadTopics, match="has 4 partitions and the app now needs 2"):
        check_existing(InternalTopic("app-counts-changelog", 2), 4)


def test_changelogs_have_a_partition_for_each_task_and_are_compacted() -> None:
    plan = word_count("app")
    counts = partition_counts(plan, {"lines": 3})

    [words, changelog] = internal_topics(plan, counts)

    assert (words.name, words.partitions) == ("app-words-repartition", 3)
    assert changelog == InternalTopic("app-counts-changelog", 3, {"cleanup.policy": "compact"})
