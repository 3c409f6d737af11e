"""The assignors of streams groups: members and tasks in, the tasks of each member out.

Each is a pure function. Whatever it gets, each task is active once, and no process has a task
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from moldau.broker.coordinator.group.streams.assignors.assignor import MemberSpec, Work
from moldau.broker.coordinator.group.streams.assignors.sticky import assign as sticky
from moldau.broker.coordinator.group.streams.tasks import Tasks

Assignor: TypeAlias = "Callable[[Mapping[str, MemberSpec], Work], dict[str, Tasks]]"

ASSIGNORS: Final[Mapping[str, Assignor]] = {"sticky": sticky}
"""The assignors, by the names in `group.streams.assignors` and `streams.assignor.name`."""

__all__ = ("ASSIGNORS", "Assignor", "MemberSpec", "Work")
