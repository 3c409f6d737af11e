"""The messages between a worker and its tasks: one JSON object each. No IO.

Worker to task: `start` (a `TaskSpec`), `pause`, `resume`, `stop` (with `why`, a `StopFor`),
`answer` (to a question).

Task to worker: `state`, `ask` (the store of offsets), `topics` in use, `metrics`, `waiting` (what
is tried again, and why), `stopped`.
"""

from __future__ import annotations

from dataclasses import asdict, field
from typing import Any, Self

import msgspec

from moldau.connect.storage.keys import TaskId
from moldau.deferred import dataclass

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """All that a task needs to run. Values are as stored: `${...}` references are not resolved."""

    connector: str
    task: int
    worker: dict[str, str]
    connector_config: dict[str, str]
    task_config: dict[str, str]
    is_paused: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    cluster: str = "standalone"
    """The worker group, or the id of a standalone worker."""
    generation: int = 0
    """The commit of task configs that the task belongs to, as its worker counts them."""

    @property
    def id(self) -> TaskId:
        return TaskId(self.connector, self.task)

    @classmethod
    def parse(cls, message: Message) -> Self:
        """Return the spec in a `start` message."""
        return cls(**message["spec"])

    def message(self) -> Message:
        """Return the `start` message."""
        return {"type": "start", "spec": asdict(self)}


def dump(message: Message) -> bytes:
    """Return a message as one line of JSON."""
    return msgspec.json.encode(message, enc_hook=as_json)


def parse(line: bytes) -> Message:
    """Return the message in a line that `dump` made."""
    found: Message = msgspec.json.decode(line)
    return found


def as_json(value: object) -> object:
    """Return what JSON has for a value of another kind: a number, or its text."""
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else str(value)
