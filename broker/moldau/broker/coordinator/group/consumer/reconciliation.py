"""The next step of one member towards its target assignment.

Invariants:
- A member moves to a new epoch only after it said that it no longer owns what it has to give up.
- It gets a partition only when no other member holds it: `is_free` looks at everything that any
  member owns or has yet to give up.
So a partition has one owner at a time, whatever order heartbeats come in.

Revoke first, then move, then take: with one step a heartbeat a member never has to be told two
things at once, and what it says it owns is enough to know where it stands (KIP-848).

Nothing here knows consumer groups: partitions may as well be tasks of a streams group, which has
the same three steps.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field, replace
from typing import Final

from moldau.broker.coordinator.group.consumer.member_state import MemberState, may_follow
from moldau.broker.coordinator.group.consumer.partitions import (
    NOTHING_OWNED,
    Owned,
    Partitions,
    have_in_common,
    union,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid

LEAVING_EPOCH: Final = -1
"""The epoch of a member that leaves, or has left."""

STATIC_LEAVING_EPOCH: Final = -2
"""The epoch of a static member that left and will be back."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a member stands: what record 8 holds."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=lambda: NOTHING_OWNED)
    revoking: Owned = field(default_factory=lambda: NOTHING_OWNED)
    """What it may still own until it says otherwise."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether it owns all of the target of that epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


@dataclass(frozen=True, slots=True)
class Target:
    """Where the member shall come, and what stands in its way."""

    epoch: int
    partitions: Partitions
    subscribed: Container[Uuid]
    """Topics of the target that the member no longer wants are not given to it."""

    is_free: Callable[[Uuid, int], bool]
    """Whether no member owns that partition or has yet to give it up."""

    has_subscription_changed: bool = False


def next_step(now: Progress, target: Target, reported: Partitions | None) -> Progress:
    """Where the member stands after this heartbeat; the same object when nothing changes.

    `reported` is what it says it owns, None if it does not say."""
    after = _next_step(now, target, reported)
    assert may_follow(now.state, after.state), f"{now.state} cannot become {after.state}"
    return after


def _next_step(now: Progress, target: Target, reported: Partitions | None) -> Progress:
    match now.state:
        case MemberState.STABLE:
            if now.epoch != target.epoch:
                return _advance(now, target, reported, now.epoch)
            if target.has_subscription_changed:
                return _drop_unsubscribed(now, target, reported)
            return now
        case MemberState.UNREVOKED_PARTITIONS:
            if not _still_owns(reported, now.revoking):
                return _advance(now, target, reported, now.epoch)
            if target.has_subscription_changed:
                return _drop_unsubscribed(now, target, reported)
            return now
        case MemberState.UNRELEASED_PARTITIONS:
            return _advance(now, target, reported, now.epoch)
        case _:
            if reported is None or reported:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "the log has the member in a state of a later version; it must give up all "
                    "partitions and join again",
                )
            return _advance(now, target, reported, target.epoch)


def _still_owns(reported: Partitions | None, revoking: Owned) -> bool:
    """A member that does not say what it owns is taken to own everything still."""
    return reported is None or have_in_common(reported, revoking)


def _advance(now: Progress, target: Target, reported: Partitions | None, epoch: int) -> Progress:
    """Sort what there is into kept, to be given up, to be had now, and to be waited for."""
    assigned: dict[Uuid, dict[int, int]] = {}
    revoking: dict[Uuid, dict[int, int]] = {}
    gained: list[tuple[Uuid, int]] = []
    waits = False
    for topic_id in target.partitions.keys() | now.assigned.keys():
        wanted = target.partitions.get(topic_id, frozenset())
        if wanted and topic_id not in target.subscribed:
            wanted = frozenset()
        held = now.assigned.get(topic_id, {})
        kept = {partition: since for partition, since in held.items() if partition in wanted}
        if kept:
            assigned[topic_id] = kept
        if len(kept) < len(held):
            revoking[topic_id] = {each: since for each, since in held.items() if each not in kept}
        if len(kept) < len(wanted):
            own_pending = now.revoking.get(topic_id, {})
            for partition in sorted(wanted.difference(kept)):
                if partition in own_pending or target.is_free(topic_id, partition):
                    gained.append((topic_id, partition))
                else:
                    waits = True
    if revoking and _still_owns(reported, revoking):
        return Progress(epoch, now.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking)
    for topic_id, partition in gained:
        assigned.setdefault(topic_id, {})[partition] = target.epoch
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return Progress(target.epoch, now.epoch, state, assigned)


def _drop_unsubscribed(now: Progress, target: Target, reported: Partitions | None) -> Progress:
    """Without a new target yet: the member gives up topics that it no longer wants."""
    dropped = {
        topic_id: held
        for topic_id, held in now.assigned.items()
        if topic_id not in target.subscribed
    }
    if not dropped:
        return now
    assigned = {
        topic_id: held for topic_id, held in now.assigned.items() if topic_id not in dropped
    }
    revoking = union(now.revoking, dropped)
    after = replace(now, previous_epoch=now.epoch, assigned=assigned)
    if _still_owns(reported, revoking):
        return replace(after, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return after
