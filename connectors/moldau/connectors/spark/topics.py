"""The topics of a sink, and what `spark.task.per.topic=true` makes of its config. No IO.

Each topic has a task with a query of its own: its settings are those of the connector with one
topic, and `${topic}` in `sink.path`, `sink.table` and `sink.topic` is that topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from moldau.connect.api import Problem
from moldau.connectors.spark.base_config import FILES

PER_TOPIC: Final = "spark.task.per.topic"
TASK_TOPIC: Final = "spark.task.topic"
"""In the config of a task: its topic. Kafka Connect gives each task all `topics`."""
_PLACE: Final = "${topic}"
_PLACED: Final = ("sink.path", "sink.table", "sink.topic")


def topic_names(props: Mapping[str, str]) -> list[str]:
    """The topics in `topics`, sorted: their order there makes no difference to tasks."""
    return sorted({each.strip() for each in props.get("topics", "").split(",") if each.strip()})


def props_of(props: Mapping[str, str], topic: str) -> dict[str, str]:
    """The settings of the query of one topic."""
    found = {**props, "topics": topic, PER_TOPIC: "false"}
    for name in _PLACED:
        if name in found:
            found[name] = found[name].replace(_PLACE, topic)
    starting = offsets_by_topic(props)
    if starting is not None and topic in starting:
        found["starting.offsets"] = json.dumps({topic: starting[topic]})
    return found


def offsets_by_topic(props: Mapping[str, str]) -> dict[str, object] | None:
    """What `starting.offsets` has for each topic; None if it is a word, or no JSON object."""
    try:
        found = json.loads(props.get("starting.offsets", ""))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def check_whole(props: Mapping[str, str]) -> Iterable[Problem]:
    """What is wrong with `${topic}` where all topics have one query."""
    for name in _PLACED:
        if _PLACE in props.get(name, ""):
            yield Problem(name, f"{_PLACE} is for {PER_TOPIC}=true: set it, or write a name")


def check_split(props: Mapping[str, str], kind: str, mode: str) -> Iterable[Problem]:
    """What is wrong with `spark.task.per.topic=true` for this `sink.format` and `sink.mode`."""
    if props.get("topics.regex", "").strip():
        yield Problem(PER_TOPIC, "each topic has to be named: use topics in place of topics.regex")
        return
    names = topic_names(props)
    if _tasks_max(props) < len(names):
        yield Problem("tasks.max", f"tasks.max has to be at least {len(names)}: {PER_TOPIC}=true "
                      "makes a task for each topic")  # fmt: skip
    shared = _shared(kind, mode)
    if shared is not None and _PLACE not in props.get(shared, _PLACE):
        what = "table" if shared == "sink.table" else "directory"
        yield Problem(
            shared, f"put {_PLACE} into it: two queries may not write into one {what} of {kind}"
        )
    missing = [each for each in names if each not in (offsets_by_topic(props) or names)]
    if missing:
        yield Problem("starting.offsets", f"name each topic: {', '.join(missing)} is missing")


def _shared(kind: str, mode: str) -> str | None:
    """The setting that has to differ from topic to topic: Spark's log of a directory and the
    commits of a table are of one query, and an overwritten table has the rows of one."""
    if kind in (*FILES, "delta"):
        return "sink.path"
    if kind == "iceberg" or (kind == "jdbc" and mode == "overwrite"):
        return "sink.table"
    return None


def _tasks_max(props: Mapping[str, str]) -> float:
    """What no number can be wrong with here: Connect says so itself."""
    try:
        return int(props.get("tasks.max", "1"))
    except ValueError:
        return float("inf")
