"""The topics of a sink, and the config of each topic with `spark.task.per.topic=true`. No IO.

Each topic has a task with a query of its own. Its settings are those of the connector with one
topic, and `${topic}` in `sink.path`, `sink.table` and `sink.topic` is that topic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from moldau.connect.api import Problem
from moldau.connectors.spark.base_config import FILE_FORMATS

TASK_PER_TOPIC: Final = "spark.task.per.topic"
TASK_TOPIC: Final = "spark.task.topic"
"""The key of a task's topic in its config. Kafka Connect gives each task all `topics`."""
_PLACEHOLDER: Final = "${topic}"
_KEYS_WITH_PLACEHOLDER: Final = ("sink.path", "sink.table", "sink.topic")


def topic_names(props: Mapping[str, str]) -> list[str]:
    """Return the topics in `topics`, sorted: their order there does not change the tasks."""
    return sorted({each.strip() for each in props.get("topics", "").split(",") if each.strip()})


def topic_props(props: Mapping[str, str], topic: str) -> dict[str, str]:
    """Return the settings of the query of one topic."""
    found = {**props, "topics": topic, TASK_PER_TOPIC: "false"}
    for name in _KEYS_WITH_PLACEHOLDER:
        if name in found:
            found[name] = found[name].replace(_PLACEHOLDER, topic)
    starting = starting_offsets_by_topic(props)
    if starting is not None and topic in starting:
        found["starting.offsets"] = json.dumps({topic: starting[topic]})
    return found


def starting_offsets_by_topic(props: Mapping[str, str]) -> dict[str, object] | None:
    """Return the offsets in `starting.offsets` by topic; None if it is no JSON object."""
    try:
        found = json.loads(props.get("starting.offsets", ""))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def is_subscribed(props: Mapping[str, str], topic: str) -> bool:
    """Whether the connector reads this topic, by `topics` or by `topics.regex`."""
    pattern = props.get("topics.regex", "").strip()
    if topic in topic_names(props):
        return True
    try:
        return bool(pattern) and re.compile(pattern).fullmatch(topic) is not None
    except re.error:
        return False  # reading the topics reports it


def check_target_topic(
    props: Mapping[str, str], target: str | None, *, each: bool
) -> Iterable[Problem]:
    """Report a `sink.topic` that the connector itself reads: its rows would come back for ever.

    `each`: each topic has a query of its own, with its topic in place of `${topic}`.
    """
    if target is None:
        return
    names = topic_names(props) if each else []
    targets = {target.replace(_PLACEHOLDER, name) for name in names} or {target}
    for topic in sorted(targets):
        if is_subscribed(props, topic):
            yield Problem(
                "sink.topic",
                f"the connector reads the topic {topic} itself, so each row would come back: write "
                "to another topic, or leave it out of topics and topics.regex",
            )


def check_one_query(props: Mapping[str, str]) -> Iterable[Problem]:
    """Report each `${topic}` in a config where all topics have one query."""
    for name in _KEYS_WITH_PLACEHOLDER:
        if _PLACEHOLDER in props.get(name, ""):
            yield Problem(
                name, f"{_PLACEHOLDER} is for {TASK_PER_TOPIC}=true: set it, or write a name"
            )


def check_task_per_topic(props: Mapping[str, str], kind: str, mode: str) -> Iterable[Problem]:
    """Report the settings that contradict `spark.task.per.topic=true`.

    `kind` and `mode` are the `sink.format` and the `sink.mode`.
    """
    if props.get("topics.regex", "").strip():
        yield Problem(
            TASK_PER_TOPIC, "each topic has to be named: use topics in place of topics.regex"
        )
        return
    names = topic_names(props)
    if _tasks_max(props) < len(names):
        yield Problem("tasks.max", f"tasks.max has to be at least {len(names)}: "
                      f"{TASK_PER_TOPIC}=true makes a task for each topic")  # fmt: skip
    unique = _unique_key(kind, mode)
    if unique is not None and _PLACEHOLDER not in props.get(unique, _PLACEHOLDER):
        what = "table" if unique == "sink.table" else "directory"
        yield Problem(
            unique,
            f"put {_PLACEHOLDER} into it: two queries may not write into one {what} of {kind}",
        )
    missing = [each for each in names if each not in (starting_offsets_by_topic(props) or names)]
    if missing:
        yield Problem("starting.offsets", f"name each topic: {', '.join(missing)} is missing")


def _unique_key(kind: str, mode: str) -> str | None:
    """Return the setting that must differ between topics; None if they may share a sink.

    Spark's log of a directory and the commits of a table belong to one query, and an overwritten
    table has the rows of one query.
    """
    if kind in (*FILE_FORMATS, "delta"):
        return "sink.path"
    if kind == "iceberg" or (kind == "jdbc" and mode == "overwrite"):
        return "sink.table"
    return None


def _tasks_max(props: Mapping[str, str]) -> float:
    """Return `tasks.max`. Return infinity if it is no number: Connect itself reports that."""
    try:
        return int(props.get("tasks.max", "1"))
    except ValueError:
        return float("inf")
