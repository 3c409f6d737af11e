"""The messages of workers through the group coordinator, in Kafka Connect's bytes. No IO.

    default     version 0   eager: an assignment is all that a worker has to run
    compatible  version 1   incremental: what is new and what is to be given up (KIP-415)
    sessioned   version 2   the same; requests between workers are signed (KIP-507)

A task number of -1 stands for the connector itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from moldau.connect.herder.plan import Assignment
from moldau.connect.storage.keys import TaskId
from moldau.errors import MalformedMessage

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


# Writing


def write_state(version: int, state: WorkerState) -> bytes:
    """Encode the metadata of a member."""
    out = struct.pack(">h", version) + _text(state.url) + struct.pack(">q", state.config_offset)
    if version == 0:
        return out
    if state.owned == EMPTY:
        return out + struct.pack(">i", -1)
    owned = write_share(version, Share("", "", state.config_offset, state.owned))
    return out + struct.pack(">i", len(owned)) + owned


def write_share(version: int, share: Share) -> bytes:
    """Encode the assignment of a member."""
    out = struct.pack(">hh", version, share.error) + _text(share.leader) + _text(share.leader_url)
    out += struct.pack(">q", share.config_offset) + _assignment(share.assigned)
    if version == 0:
        return out
    return out + _assignment(share.revoked) + struct.pack(">i", share.delay_ms)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _assignment(assignment: Assignment) -> bytes:
    by_connector: dict[str, list[int]] = {}
    for name in sorted(assignment.connectors):
        by_connector.setdefault(name, []).append(CONNECTOR)
    for task in sorted(assignment.tasks):
        by_connector.setdefault(task.connector, []).append(task.task)
    out = struct.pack(">i", len(by_connector))
    for name, numbers in by_connector.items():
        out += _text(name) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return out


# Reading


class _Reader:
    """Decodes bytes from another worker: each size is checked against the rest of the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        size = struct.calcsize(form)
        (found,) = struct.unpack(form, self.take(size))
        return int(found)

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise MalformedMessage("a worker's state is cut short", at=self._at, size=size)
        self._at += size
        return self._data[self._at - size : self._at]

    def text(self) -> str:
        return self.take(self.number(">h")).decode("utf-8", "replace")

    def has_ended(self) -> bool:
        return self._at == len(self._data)

    def assignment(self) -> Assignment:
        connectors: set[str] = set()
        tasks: set[TaskId] = set()
        for _ in range(max(0, self.number(">i"))):
            name = self.text()
            for _ in range(max(0, self.number(">i"))):
                number = self.number(">i")
                if number == CONNECTOR:
                    connectors.add(name)
                else:
                    tasks.add(TaskId(name, number))
        return Assignment(frozenset(connectors), frozenset(tasks))


def read_state(data: bytes) -> WorkerState:
    """Decode the metadata of a member. Raise MalformedMessage for any other bytes."""
    reader = _Reader(data)
    version = reader.number(">h")
    url, offset = reader.text(), reader.number(">q")
    if version == 0 or reader.has_ended():
        return WorkerState(url, offset)
    size = reader.number(">i")
    owned = EMPTY if size <= 0 else read_share(reader.take(size)).assigned
    return WorkerState(url, offset, owned)


def read_share(data: bytes) -> Share:
    """Decode the assignment of a member. Raise MalformedMessage for any other bytes."""
    reader = _Reader(data)
    version = reader.number(">h")
    error = reader.number(">h")
    leader, url = reader.text(), reader.text()
    offset, assigned = reader.number(">q"), reader.assignment()
    revoked, delay_ms = EMPTY, 0
    if version > 0 and not reader.has_ended():
        revoked = reader.assignment()
        delay_ms = 0 if reader.has_ended() else reader.number(">i")
    return Share(leader, url, offset, assigned, revoked, delay_ms, error)


def union(assignments: Iterable[Assignment]) -> Assignment:
    """Return the union of all these assignments."""
    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()
    for each in assignments:
        connectors |= each.connectors
        tasks |= each.tasks
    return Assignment(connectors, tasks)


def without(assignment: Assignment, gone: Assignment) -> Assignment:
    """Return `assignment` without what is in `gone`."""
    return Assignment(assignment.connectors - gone.connectors, assignment.tasks - gone.tasks)
