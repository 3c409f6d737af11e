"""Check the settings of topics in a pipeline file: their names, and what each value may be.

The rows are Kafka's. A broker of another version may have more, so an unknown name is a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.config.file_problems import Problem, nearest, warning
from moldau.config.yaml_tree import Node
from moldau.pipeline.pipeline import Topic
from moldau.pipeline.references import has_reference

_NUMBERS: Final[Mapping[str, int]] = {
    "compression.gzip.level": -1,
    "compression.lz4.level": 1,
    "compression.zstd.level": -131_072,
    "delete.retention.ms": 0,
    "file.delete.delay.ms": 0,
    "flush.messages": 1,
    "flush.ms": 0,
    "index.interval.bytes": 0,
    "local.retention.bytes": -2,
    "local.retention.ms": -2,
    "max.compaction.lag.ms": 1,
    "max.message.bytes": 0,
    "message.timestamp.after.max.ms": 0,
    "message.timestamp.before.max.ms": 0,
    "min.compaction.lag.ms": 0,
    "min.insync.replicas": 1,
    "retention.bytes": -1,
    "retention.ms": -1,
    "segment.bytes": 1_048_576,
    "segment.index.bytes": 4,
    "segment.jitter.ms": 0,
    "segment.ms": 1,
}
"""The lowest value of each setting that is a whole number."""
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "cleanup.policy": ("compact", "delete"),
    "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    **dict.fromkeys(
        (
            "preallocate",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
            "unclean.leader.election.enable",
        ),
        ("true", "false"),
    ),
}
"""The values of each setting that takes certain words only."""
_OTHERS: Final = (
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.replicas",
    "min.cleanable.dirty.ratio",
)
TOPIC_SETTINGS: Final = (*_NUMBERS, *_WORDS, *_OTHERS)


def check_topic_settings(topic: Topic, root: Node) -> list[Problem]:
    """Return the problems of a topic's `config`."""
    problems = []
    for name, value in topic.config.items():
        line = root.line_at(("topics", topic.name, "config", name))
        where = f"topics.{topic.name}.config"
        if name not in TOPIC_SETTINGS:
            known = nearest(name, TOPIC_SETTINGS)
            problems.append(warning(line, f"{where}: Kafka has no topic setting {name}{known}"))
        elif not has_reference(value) and (allowed := _allowed(name, value)) is not None:
            problems.append(Problem(line, f"{where}.{name}: {value!r} is not {allowed}"))
    return problems


def _allowed(name: str, value: str) -> str | None:
    """Return what the setting allows, if the value is something else."""
    text = value.strip()
    if name in _NUMBERS:
        try:
            is_good = int(text) >= _NUMBERS[name]
        except ValueError:
            is_good = False
        return None if is_good else f"a whole number of {_NUMBERS[name]} or more"
    if name in _WORDS:
        words = text.split(",") if name == "cleanup.policy" else [text]
        known = {each.lower() for each in _WORDS[name]}
        if all(each.strip().lower() in known for each in words):
            return None
        return f"one of {', '.join(_WORDS[name])}"
    return None
