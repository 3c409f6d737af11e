"""The settings of a quick mirror, and the partitions that it has copied."""

from __future__ import annotations

from moldau.client import TopicPartition
from moldau.client.sync import Admin

QUICK = [
    word
    for name in (
        "refresh.topics.interval.seconds",
        "refresh.groups.interval.seconds",
        "emit.checkpoints.interval.seconds",
        "sync.group.offsets.interval.seconds",
        "sync.topic.configs.interval.seconds",
    )
    for word in ("--set", f"{name}=1")
]


def read_topic(admin: Admin, name: str) -> list[TopicPartition]:
    """The partitions of a topic; none before it exists."""
    return [
        TopicPartition(name, n)
        for each in admin.list_topics()
        if each.name == name
        for n in range(len(each.partitions))
    ]
