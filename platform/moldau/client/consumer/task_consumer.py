"""A consumer in a streams group (KIP-1071): the coordinator assigns tasks of a topology to it.

It reads the input partitions of its active tasks. Its listener is called as in any group; inside
each call, and after it, `tasks` has the tasks that the process has from then on, copies included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from moldau.client.consumer.consumer import Consumer
from moldau.client.consumer.membership import member_settings
from moldau.client.group.assignors import AssignorGiven
from moldau.client.group.streams import (
    NO_TASKS,
    GroupTask,
    GroupTasks,
    StreamsMember,
    StreamsSettings,
    TaskPosition,
)
from moldau.client.group.topology import TopologyDescription
from moldau.config import Settings
from moldau.link.metadata import TopicPartition
from moldau.runtime import Runtime


class TaskConsumer(Consumer[bytes, bytes]):
    """A consumer of the inputs of tasks. `member_id` is its name in the group: one that it keeps
    over a restart finds its tasks again before its session ends."""

    def __init__(
        self,
        settings: Mapping[str, object],
        *,
        member_id: str,
        process: StreamsSettings,
        runtime: Runtime | None = None,
    ) -> None:
        super().__init__(settings, runtime=runtime)
        self._member_id = member_id
        self._process = process
        self._member: StreamsMember | None = None
        self.topology = TopologyDescription(())
        """What is sent when it joins: set it before the first poll."""

    def _new_member(
        self, runtime: Runtime, settings: Settings, assignors: Sequence[AssignorGiven]
    ) -> StreamsMember:
        terms = member_settings(settings)
        self._member = StreamsMember(
            terms, self._member_id, runtime.random, lambda: self.topology, self._process
        )
        return self._member

    @property
    def tasks(self) -> GroupTasks:
        """The tasks of this member."""
        return NO_TASKS if self._member is None else self._member.tasks

    @property
    def is_app_ended(self) -> bool:
        """Whether a member of the group has asked all members to stop."""
        return self._member is not None and self._member.is_app_ended

    def end_app(self) -> None:
        """Ask all members of the group to stop, as this one leaves it."""
        if self._member is not None:
            self._member.ends_app = True

    def announce(self, tags: Mapping[str, str]) -> None:
        """Give the coordinator these client tags instead of those of its settings."""
        self._process = replace(self._process, client_tags=tags)
        if self._member is not None:
            self._member.on_tags(tags)
        if self._group is not None:
            self._group.session.poke()

    def report(self, positions: Mapping[GroupTask, TaskPosition]) -> None:
        """Report how far the copies are, if it is time to."""
        if self._member is not None:  # the next poll looks what it wants
            self._member.on_positions(positions, self._clock.monotonic())

    def owner(self, where: TopicPartition) -> str | None:
        """Return host:port of the process with the active task of an input partition; None if it is
        unknown, or serves no queries."""
        return None if self._member is None else self._member.active_owners.get(where)

    def standby_owners(self, where: TopicPartition) -> tuple[str, ...]:
        """Return host:port of the processes with a copy of its state."""
        return () if self._member is None else self._member.standby_owners.get(where, ())
