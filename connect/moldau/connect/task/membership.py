"""A sink task's place in its consumer group, which a new process of the task takes over at once.

Each sink task is a static member (KIP-345): its `group.instance.id` is made of the worker group,
the connector and the task's number. When its process or its worker was killed, the next process
joins under the same id and has the same partitions without a rebalance; a member without such an id
would keep them until its session ends (45 s). A task that ends in order leaves its group, unless
the same worker starts it again at once. For a task that had to be killed the worker removes the
member.

Why the worker does not always send LeaveGroup for a child that died: a killed worker sends nothing,
and then waiting costs the most. An instance id also fences: of two processes of one task the
coordinator accepts only the one that joined last, which belongs to the worker that was assigned the
task last. The other one gets FENCED_INSTANCE_ID, ends with `Fenced`, and is not restarted before
its worker has joined its own group again and still has the task.

A `group.instance.id` that the user sets is kept: unchanged for task 0, with `-N` for task N,
because tasks with the same id would fence each other. Such a member leaves only when its task is
removed for good, as users of static members expect. An empty id makes dynamic members.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final

from moldau.client.sync import Admin
from moldau.connect.errors import ConnectError
from moldau.connect.storage.keys import TaskId
from moldau.connect.task.settings import Config
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError

INSTANCE_ID: Final = "group.instance.id"
_OF_ANOTHER: Final = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)
_NAME_MAX: Final = 249
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9._-]")
_DIGEST_CHARS: Final = 16


class StopFor(StrEnum):
    """The reason why a task is stopped."""

    RESTART = "restart"
    """The same worker starts it again at once."""
    MOVE = "move"
    """Another worker may run it, now or later."""
    END = "end"
    """The task no longer exists."""


class Fenced(ConnectError):
    """Another process runs the same task and has taken its place in the group."""


@dataclass(frozen=True, slots=True)
class SinkMembership:
    """The place of one sink task in its consumer group."""

    group_id: str
    instance_id: str | None
    is_users: bool
    """Whether the user has set the instance id."""
    is_by_coordinator: bool
    """Whether the group uses the consumer protocol (KIP-848)."""

    @classmethod
    def of(cls, task: TaskId, cluster: str, given: Config) -> SinkMembership:
        """Return a task's membership. `cluster` is the worker group, `given` consumer settings."""
        own = given.get(INSTANCE_ID)
        group_id = given.get("group.id", f"connect-{task.connector}")
        is_new = given.get("group.protocol", "classic").strip().lower() == "consumer"
        if own is None:
            return cls(group_id, instance_id(cluster, task), False, is_new)
        own = own.strip()
        theirs = own if not own or task.task == 0 else f"{own}-{task.task}"
        return cls(group_id, theirs or None, True, is_new)

    def settings(self) -> dict[str, str]:
        """Return the consumer settings that set the instance id."""
        return {} if self.instance_id is None else {INSTANCE_ID: self.instance_id}

    def leaves(self, why: StopFor) -> bool | None:
        """Whether the member leaves the group at its end; None for the client's own rule."""
        if self.instance_id is None:
            return None
        if self.is_users:
            return why is StopFor.END
        return why is not StopFor.RESTART


def instance_id(cluster: str, task: TaskId) -> str:
    """Return the generated instance id. It has only characters of topic names, at most 249."""
    text = f"connect-{cluster}-{task.connector}-{task.task}"
    fitting = _FOREIGN.sub("_", text)
    if fitting == text and len(text) <= _NAME_MAX:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]
    return f"{fitting[: _NAME_MAX - _DIGEST_CHARS - 1]}-{digest}"


def is_fenced(error: KafkaError) -> bool:
    """Whether the error says that another process has the instance id."""
    return error.code in _OF_ANOTHER


def fenced(task: TaskId, membership: SinkMembership) -> Fenced:
    """Return the error of a task whose place another process has taken."""
    return Fenced(
        "another process runs this task and has taken its place in the group",
        task=str(task),
        group=membership.group_id,
        instance_id=membership.instance_id,
        hint="nothing, if a worker was taken for dead: the task goes on elsewhere; else look for "
        "a second worker with the same group.id or state directory",
    )


def settings_with(given: Mapping[str, object], membership: SinkMembership) -> dict[str, object]:
    """Return the consumer's settings with the member's instance id."""
    found = {name: value for name, value in given.items() if name != INSTANCE_ID}
    return {**found, **membership.settings()}


def release(admin_settings: Mapping[str, str], membership: SinkMembership) -> None:
    """Remove the member of a killed process from its group, if it exists. In a group with the
    consumer protocol no other member can take its place before."""
    assert membership.instance_id is not None
    with Admin(dict(admin_settings)) as admin, suppress(KafkaError):
        admin.remove_members(
            membership.group_id,
            instance_ids=[membership.instance_id],
            reason="its process has ended",
        )
