"""The content of the status topic: the state of each connector and task, and topics in use. No IO.

A status has the worker and the generation of its group in which it was written. A worker that lost
a task may still write UNASSIGNED while the new owner writes RUNNING: `is_stale` shows which of the
two is older, and `is_taken_back` that the older one came last, as of a worker that could not be
reached and learns of its loss in a later generation. Generations begin again at 1 when the group
was gone, as after minutes without a worker, while the statuses stay: so what begins to run is never
stale.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from moldau.connect.storage.keys import Json, TaskId, dump, parse
from moldau.deferred import dataclass


class ConnectorState(Enum):
    """The state of a connector or a task, by Kafka Connect's names."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a connector or a task."""

    state: ConnectorState
    worker_id: str
    generation: int = 0
    trace: str | None = None
    version: str | None = None

    def dump(self) -> bytes:
        """Return the record value for the status topic."""
        return dump(
            {
                "state": self.state.value,
                "trace": self.trace,
                "worker_id": self.worker_id,
                "generation": self.generation,
                "version": self.version,
            }
        )


class StatusImage:
    """The fold of the status topic."""

    def __init__(self) -> None:
        self.connectors: dict[str, Status] = {}
        self.tasks: dict[TaskId, Status] = {}
        self.topics: dict[str, set[str]] = {}
        """The topics that each connector has used."""

    def apply(self, key: bytes, value: bytes | None) -> str | TaskId | None:
        """Apply one record. Return the connector or task whose status it is, if there is one. An
        unknown or malformed record changes nothing."""
        text = key.decode("utf-8", "replace")
        if text.startswith("status-topic-"):
            self._on_topic(text.removeprefix("status-topic-"), is_used=value is not None)
            return None
        status = None if value is None else _status(parse(value))
        if value is not None and status is None:
            return None
        if text.startswith("status-connector-"):
            name = text.removeprefix("status-connector-")
            _put(self.connectors, name, status)
            return name
        if text.startswith("status-task-"):
            name, _, number = text.removeprefix("status-task-").rpartition("-")
            if name and number.isdecimal():
                task = TaskId(name, int(number))
                _put(self.tasks, task, status)
                return task
        return None

    def of(self, what: str | TaskId) -> Status | None:
        """Return the status of a connector or task, if there is one."""
        return self.tasks.get(what) if isinstance(what, TaskId) else self.connectors.get(what)

    def tasks_of(self, connector: str) -> dict[TaskId, Status]:
        """Return the statuses of a connector's tasks, ordered by task number."""
        return {task: self.tasks[task] for task in sorted(self.tasks) if task[0] == connector}

    def _on_topic(self, tail: str, *, is_used: bool) -> None:
        topic, separator, connector = tail.partition(":connector-")
        if not separator:
            return
        if is_used:
            self.topics.setdefault(connector, set()).add(topic)
        else:
            self.topics.get(connector, set()).discard(topic)


_BEGINS: Final = frozenset({ConnectorState.RUNNING, ConnectorState.PAUSED, ConnectorState.STOPPED})


def is_stale(new: Status, known: Status | None, *, is_first: bool = False) -> bool:
    """Whether `new` must not replace `known`, because another worker has written `known` in a later
    generation. `is_first` says that the worker has written no status of this run before."""
    if known is None or new.state in _BEGINS or (is_first and new.state is ConnectorState.FAILED):
        return False
    return new.worker_id != known.worker_id and new.generation < known.generation


def is_taken_back(mine: Status, known: Status | None) -> bool:
    """Whether another worker, which had the same work before, has ended it after `mine` was
    written."""
    return (
        known is not None
        and known.state is ConnectorState.UNASSIGNED
        and known.worker_id != mine.worker_id
        and mine.state is not ConnectorState.UNASSIGNED
    )


def _put(statuses: dict[Json, Status], key: object, status: Status | None) -> None:
    if status is None or status.state is ConnectorState.DESTROYED:
        statuses.pop(key, None)
    else:
        statuses[key] = status


def _status(value: Json) -> Status | None:
    if not isinstance(value, dict) or value.get("state") not in ConnectorState.__members__:
        return None
    generation, trace = value.get("generation"), value.get("trace")
    version = value.get("version")
    return Status(
        ConnectorState(value["state"]),
        str(value.get("worker_id", "")),
        generation if isinstance(generation, int) else 0,
        trace if isinstance(trace, str) else None,
        version if isinstance(version, str) else None,
    )
