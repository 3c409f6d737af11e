"""The content of the config topic: connectors, their tasks and their target states. No IO.

Task configs are one record a task and take effect only with a commit record, which has the number
of tasks. Until then they are deferred. A commit without all of its tasks (compaction may have
removed some) makes the connector *inconsistent*, so that its owner makes the task configs again.
Tasks keep running with the connector config that was current when their configs were committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from moldau.connect.storage.keys import (
    ConfigTopicKey,
    Json,
    Key,
    TargetState,
    TaskId,
    parse,
    parse_config_key,
    parse_target_state,
)
from moldau.deferred import dataclass

Config = Mapping[str, str]
DEFAULT_ALGORITHM: Final = "HmacSHA256"
"""How workers sign requests to each other, with the session key."""


@dataclass(slots=True)
class ConnectorEntry:
    """One connector. `config` is None while only its task records or its target were read."""

    config: dict[str, str] | None = None
    target: TargetState = TargetState.STARTED
    tasks: dict[int, dict[str, str]] = field(default_factory=dict)
    task_count: int = 0
    applied: dict[str, str] | None = None
    """The connector config that the committed task configs were made of."""
    is_inconsistent: bool = False
    deferred: dict[int, dict[str, str]] = field(default_factory=dict)
    commits: int = 0
    fenced_tasks: int | None = None
    """The number of tasks that may have producers, as the last fencing has recorded it."""
    is_unfenced: bool = False
    """Whether task configs were committed after the last fencing (exactly-once sources)."""


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A request for a restart of a connector and of its tasks."""

    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key with which workers sign requests to each other."""

    key: str
    algorithm: str
    created_ms: int


class ConfigImage:
    """The fold of the config topic. The herder takes `restarts`, `resumed` and `levels`, and
    empties them."""

    def __init__(self) -> None:
        self._entries: dict[str, ConnectorEntry] = {}
        self.restarts: list[RestartRequest] = []
        self.resumed: list[str] = []
        """Connectors that were stopped, and so have no task configs, and are to run again."""
        self.levels: list[tuple[str, str]] = []
        self.session_key: SessionKey | None = None
        self.records = 0

    def names(self) -> list[str]:
        """Return the names of the existing connectors."""
        return sorted(name for name, entry in self._entries.items() if entry.config is not None)

    def get(self, name: str) -> ConnectorEntry | None:
        """Return an existing connector; None if there is none."""
        entry = self._entries.get(name)
        return entry if entry is not None and entry.config is not None else None

    def tasks(self, name: str) -> list[TaskId]:
        """Return the committed tasks; [] if they are inconsistent.

        A stopped connector has none, even if its worker published some just before the stop.
        """
        entry = self.get(name)
        if entry is None or entry.is_inconsistent or entry.target is TargetState.STOPPED:
            return []
        return [TaskId(name, number) for number in range(entry.task_count)]

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Apply one record. An unknown or malformed record changes nothing."""
        self.records += 1
        about = parse_config_key(key)
        if about is None:
            return
        content = None if value is None else parse(value)
        if value is not None and not isinstance(content, dict):
            return
        self._apply(about, content)

    def _apply(self, about: ConfigTopicKey, value: Json | None) -> None:
        match about.kind:
            case Key.CONNECTOR:
                self._on_connector(about.name, value)
            case Key.TASK if value is not None:
                found = _properties(value)
                if found is not None:
                    self._entry(about.name).deferred[about.task] = found
            case Key.COMMIT if value is not None:
                self._on_commit(about.name, value)
            case Key.TARGET_STATE:
                entry = self._entry(about.name)
                state = TargetState.STARTED if value is None else parse_target_state(value)
                if entry.target is TargetState.STOPPED and state is TargetState.STARTED:
                    self.resumed.append(about.name)
                entry.target = entry.target if state is None else state
            case Key.RESTART if value is not None:
                self._on_restart(about.name, value)
            case Key.TASK_COUNT:
                count = None if value is None else value.get("task-count")
                entry = self._entry(about.name)
                entry.fenced_tasks = count if isinstance(count, int) else None
                entry.is_unfenced = False
            case Key.SESSION_KEY if value is not None:
                self._on_session_key(value)
            case Key.LOGGER if value is not None:
                self.levels.append((about.name, str(value.get("level"))))
            case _:
                pass

    def _entry(self, name: str) -> ConnectorEntry:
        return self._entries.setdefault(name, ConnectorEntry())

    def _on_connector(self, name: str, value: Json | None) -> None:
        if value is None:
            old = self._entries.pop(name, None)
            if old is not None:  # its tasks may still run, also if it is created again
                entry = self._entry(name)
                entry.fenced_tasks, entry.commits = old.fenced_tasks, old.commits
                entry.is_unfenced = old.is_unfenced
            return
        found = _properties(value)
        if found is not None:
            self._entry(name).config = found

    def _on_commit(self, name: str, value: Json) -> None:
        count = value.get("tasks")
        if not isinstance(count, int) or count < 0:
            return
        entry = self._entry(name)
        if set(range(count)) - set(entry.deferred):
            entry.is_inconsistent = True
        else:
            entry.tasks = {number: entry.deferred[number] for number in range(count)}
            entry.is_inconsistent = False
            entry.applied = None if entry.config is None else dict(entry.config)
            entry.commits += 1
            entry.is_unfenced = True
        entry.deferred = {}
        entry.task_count = count

    def _on_restart(self, name: str, value: Json) -> None:
        include, failed = value.get("include-tasks"), value.get("only-failed")
        self.restarts.append(RestartRequest(name, include is True, failed is True))

    def _on_session_key(self, value: Json) -> None:
        key, algorithm = value.get("key"), value.get("algorithm")
        created = value.get("creation-timestamp")
        if isinstance(key, str) and isinstance(algorithm, str) and isinstance(created, int):
            self.session_key = SessionKey(key, algorithm, created)


def _properties(value: Json) -> dict[str, str] | None:
    found = value.get("properties")
    if not isinstance(found, dict):
        return None
    return {str(name): str(each) for name, each in found.items() if each is not None}
