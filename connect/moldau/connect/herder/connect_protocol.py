"""The messages of workers through the group coordinator, in Kafka Connect's bytes. No IO.

    default     version 0   eager: an assignment is all that a worker has to run
    compatible  version 1   incremental: what is new and what is to be given up (KIP-415)
    sessioned   version 2   the same; requests between workers are signed (KIP-507)

A task number of -1 stands for the connector itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.connect.herder.plan import Assignment
from moldau.connect.storage.keys import TaskId
from moldau.deferred import dataclass
from moldau.errors import MalformedMessage
from moldau.protocol.declare import Data, Struct, field
from moldau.protocol.types import BytesView, Int16, Int32, Int64, String

PROTOCOL_TYPE: Final = "connect"
VERSIONS: Final = {"default": 0, "compatible": 1, "sessioned": 2}
CONNECTOR: Final = -1
NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
EMPTY: Final = Assignment()


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The state that a worker sends to the leader when it joins."""

    url: str
    config_offset: int
    owned: Assignment = EMPTY


@dataclass(frozen=True, slots=True)
class Share:
    """What the leader assigns to a worker: with version 0 all of it, later only what is new."""

    leader: str
    leader_url: str
    config_offset: int
    assigned: Assignment = EMPTY
    revoked: Assignment = EMPTY
    delay_ms: int = 0
    error: int = NO_ERROR


def protocols_of(setting: str) -> list[str]:
    """Return the names that `connect.protocol` stands for, best first; [] for an unknown value."""
    return {
        "eager": ["default"],
        "compatible": ["compatible"],
        "sessioned": ["sessioned", "compatible"],
    }.get(setting, [])


class ConnectorTasks(Struct):
    """A connector and the numbers of its tasks; CONNECTOR stands for the connector itself."""

    connector: String
    numbers: list[Int32]


class WorkerStateData(Data, versions="0-2", flexible="none"):
    """The metadata of a member."""

    url: String
    config_offset: Int64
    owned: BytesView | None = field(since=1, default=None, ignorable=True)
    """A share, without a leader."""


class ShareData(Data, versions="0-2", flexible="none"):
    """The assignment of a member. Java writes null for an empty list."""

    error: Int16
    leader: String
    leader_url: String
    config_offset: Int64
    assigned: list[ConnectorTasks] | None
    revoked: list[ConnectorTasks] | None = field(since=1, default=None, ignorable=True)
    delay_ms: Int32 = field(since=1, default=0, ignorable=True)


def write_state(version: int, state: WorkerState) -> bytes:
    """Encode the metadata of a member."""
    owned = None
    if state.owned != EMPTY:
        owned = write_share(version, Share("", "", state.config_offset, state.owned))
    data = WorkerStateData(url=state.url, config_offset=state.config_offset, owned=owned)
    return version.to_bytes(2, "big") + data.encode(version)


def write_share(version: int, share: Share) -> bytes:
    """Encode the assignment of a member."""
    data = ShareData(
        error=share.error,
        leader=share.leader,
        leader_url=share.leader_url,
        config_offset=share.config_offset,
        assigned=_tasks_of(share.assigned),
        revoked=_tasks_of(share.revoked),
        delay_ms=share.delay_ms,
    )
    return version.to_bytes(2, "big") + data.encode(version)


def read_state(data: bytes) -> WorkerState:
    """Decode the metadata of a member. Raise MalformedMessage for any other bytes."""
    found, _ = WorkerStateData.decode_from(data, 2, _version(data))
    owned = read_share(bytes(found.owned)).assigned if found.owned else EMPTY
    return WorkerState(found.url, found.config_offset, owned)


def read_share(data: bytes) -> Share:
    """Decode the assignment of a member. Raise MalformedMessage for any other bytes."""
    found, _ = ShareData.decode_from(data, 2, _version(data))
    return Share(
        found.leader,
        found.leader_url,
        found.config_offset,
        _assignment(found.assigned),
        _assignment(found.revoked),
        found.delay_ms,
        found.error,
    )


def _version(data: bytes) -> int:
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise MalformedMessage("a worker's state has a negative version", version=version)
    return min(version, max(VERSIONS.values()))


def _tasks_of(assignment: Assignment) -> list[ConnectorTasks]:
    numbers = {name: [CONNECTOR] for name in sorted(assignment.connectors)}
    for task in sorted(assignment.tasks):
        numbers.setdefault(task.connector, []).append(task.task)
    return [ConnectorTasks(connector=name, numbers=found) for name, found in numbers.items()]


def _assignment(found: list[ConnectorTasks] | None) -> Assignment:
    each = {TaskId(one.connector, number) for one in found or () for number in one.numbers}
    connectors = frozenset(task.connector for task in each if task.task == CONNECTOR)
    return Assignment(connectors, frozenset(task for task in each if task.task != CONNECTOR))


def union(assignments: Iterable[Assignment]) -> Assignment:
    """Return the union of all these assignments."""
    every = tuple(assignments)
    connectors = frozenset[str]().union(*(each.connectors for each in every))
    return Assignment(connectors, frozenset[TaskId]().union(*(each.tasks for each in every)))


def without(assignment: Assignment, gone: Assignment) -> Assignment:
    """Return `assignment` without what is in `gone`."""
    return Assignment(assignment.connectors - gone.connectors, assignment.tasks - gone.tasks)
