"""The end of a worker in a streams group: it runs its tasks until others can go on with them.

Without it the tasks of a worker that leaves stand still until the others have heard it, with their
next heartbeats, have opened stores and have restored them. So a worker that is to stop says so to
the coordinator, by a client tag, and stays. The coordinator gives its tasks to the others, and lets
them warm copies up first; each task moves when its next worker has the state, as in any rebalance.
The worker leaves when it has no tasks any more.

It leaves at once if that leads to nothing: if it is a static member, whose tasks wait for it, if
all other members leave too, or if no other is to get its tasks, as with Apache Kafka's coordinator,
which does not know the tag.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.client import KafkaError
from moldau.client.group.descriptions import GroupDescription, MemberDescription, MemberTasks
from moldau.runtime import Runtime
from moldau.streams.worker.committer import LOG
from moldau.streams.worker.door import Door
from moldau.streams.worker.membership import LEAVING

_LOOK_S: Final = 0.1


class Handover:
    """What becomes of the tasks of a worker that is to stop."""

    def __init__(self, door: Door, member: str, runtime: Runtime) -> None:
        self._door = door
        self._member = member
        self._clock = runtime.clock
        self._is_announced = False
        self._look_at = 0.0

    async def goes_on(self) -> bool:
        """Whether the worker is to run on for now. Looks at the group from time to time."""
        door = self._door
        if not door.is_streams_group or door.is_static or not door.consumer.member_id:
            return False
        if not (self._door.assigned() or self._door.membership.copies()):
            return False
        if self._clock.monotonic() < self._look_at:
            return True
        try:
            group = await self._door.group()
        except KafkaError:
            return False
        self._look_at = self._clock.monotonic() + _LOOK_S
        if group is None or not self._has_heirs(group):
            return False
        if not self._is_announced:
            self._is_announced = True
            LOG.info("streams: this worker leaves when others have taken its tasks over")
            self._door.membership.announce_leave()
        return True

    def _has_heirs(self, group: GroupDescription) -> bool:
        """Whether other members stay, of which some are to get tasks of this one as soon as the
        group has heard that it leaves."""
        own = next((each for each in group.members if each.member_id == self._member), None)
        others = [
            each for each in group.members if each.member_id != self._member and not leaves(each)
        ]
        if own is None or not others:
            return False
        return not leaves(own) or _takes_over(own, others)


def leaves(member: MemberDescription) -> bool:
    """Whether the member has said that it is about to leave."""
    return member.tasks is not None and LEAVING in dict(member.tasks.client_tags)


def _takes_over(own: MemberDescription, others: Iterable[MemberDescription]) -> bool:
    """Whether the others are to get any task that this member has."""
    active = set((own.tasks or MemberTasks()).active)
    reads = set(own.assignment)
    return any(
        not reads.isdisjoint(each.target)
        or not active.isdisjoint((each.tasks or MemberTasks()).target_warmup)
        for each in others
    )
