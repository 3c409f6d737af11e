"""Keys and values of Kafka Connect's internal topics. No IO.

    config   connector-NAME, task-NAME-I, commit-NAME, target-state-NAME, restart-connector-NAME,
             tasks-fencing-NAME, session-key, logger-cluster-NAMESPACE
    status   status-connector-NAME, status-task-NAME-I, status-topic-TOPIC:connector-NAME
    offset   ["NAME",{source partition}]

Values are JSON without Connect's schema envelope. A name may contain dashes, so a task's number is
what follows the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from moldau.deferred import dataclass

Json: TypeAlias = Any


class TaskId(NamedTuple):
    """The identity of a task: connector and number."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class TargetState(Enum):
    """The state that the user wants for a connector."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class Key(Enum):
    """The kinds of records of the config topic, by the prefix of their keys."""

    CONNECTOR = "connector-"
    TASK = "task-"
    COMMIT = "commit-"
    TARGET_STATE = "target-state-"
    RESTART = "restart-connector-"
    TASK_COUNT = "tasks-fencing-"
    SESSION_KEY = "session-key"
    LOGGER = "logger-cluster-"


@dataclass(frozen=True, slots=True)
class ConfigTopicKey:
    """A parsed key of the config topic. Only a TASK key has `task`."""

    kind: Key
    name: str = ""
    task: int = -1


_PREFIXES: Final = (
    Key.TARGET_STATE,
    Key.RESTART,
    Key.TASK_COUNT,
    Key.LOGGER,
    Key.CONNECTOR,
    Key.COMMIT,
    Key.TASK,
)


def parse_config_key(key: bytes) -> ConfigTopicKey | None:
    """Parse a key of the config topic. Return None if no version of Connect writes it."""
    text = key.decode("utf-8", "replace")
    if text == Key.SESSION_KEY.value:
        return ConfigTopicKey(Key.SESSION_KEY)
    for kind in _PREFIXES:
        if not text.startswith(kind.value):
            continue
        name = text.removeprefix(kind.value)
        if kind is not Key.TASK:
            return ConfigTopicKey(kind, name)
        connector, _, number = name.rpartition("-")
        if connector and number.isdecimal():
            return ConfigTopicKey(kind, connector, int(number))
        return None
    return None


def config_key(kind: Key, name: str = "", task: int | None = None) -> bytes:
    """Return the key of a record of the config topic."""
    tail = "" if task is None else f"-{task}"
    return f"{kind.value}{name}{tail}".encode()


def dump(value: Json) -> bytes:
    """Return JSON as Java's converter writes it: no blanks, keys in the given order."""
    return msgspec.json.encode(value)


def load(value: bytes) -> Json:
    """Return the JSON value. Raise ValueError for other bytes."""
    try:
        return msgspec.json.decode(value)
    except RecursionError:
        raise ValueError("JSON is nested too deeply") from None


def parse(value: bytes) -> Json:
    """Return the JSON value; None for other bytes: a foreign record must not stop the fold."""
    try:
        return load(value)
    except ValueError:
        return None


def properties(config: Mapping[str, str | None]) -> bytes:
    """Return the record value for a connector's or a task's config."""
    return dump({"properties": dict(config)})


def target_state(state: TargetState) -> bytes:
    """Return the value of a target state. Workers before Kafka 3.5 read STOPPED as PAUSED."""
    old = TargetState.PAUSED if state is TargetState.STOPPED else state
    return dump({"state": old.value, "state.v2": state.value})


def parse_target_state(value: Json) -> TargetState | None:
    """Return the target state in a record value. The newer field has priority."""
    if not isinstance(value, dict):
        return None
    text = value.get("state.v2") or value.get("state")
    return TargetState(text) if text in TargetState.__members__ else None


def connector_status_key(name: str) -> bytes:
    return f"status-connector-{name}".encode()


def task_status_key(task: TaskId) -> bytes:
    return f"status-task-{task.connector}-{task.task}".encode()


def topic_status_key(topic: str, connector: str) -> bytes:
    return f"status-topic-{topic}:connector-{connector}".encode()


def offset_key(connector: str, partition: Json) -> bytes:
    """Return the key of a source partition's offset."""
    return dump([connector, partition])


def parse_offset_key(key: bytes) -> tuple[str, dict[str, Json]] | None:
    """Return the connector and its partition; None for any other key."""
    found = parse(key)
    if not isinstance(found, list) or len(found) != 2 or not isinstance(found[0], str):
        return None
    return (found[0], found[1]) if isinstance(found[1], dict) else None


def canonical(partition: Json) -> bytes:
    """Return the same bytes for equal partitions, independent of the order of their fields."""
    return msgspec.json.encode(partition, order="sorted")
