"""The next step of one member towards its target assignment.

Invariants:
- A member moves to a new epoch only after it reported that it no longer owns the partitions that it
  must revoke.
- It gets a partition only when no other member holds it: `is_free` considers every partition that
  any member owns or has yet to revoke.

So a partition has one owner at a time, whatever the order of heartbeats.

The order is: revoke, then move to the epoch, then take. With one step for each heartbeat a member
never gets two instructions at once, and the partitions that it reports are enough to know its
progress (KIP-848).

This module does not depend on consumer groups. In a streams group the partitions are tasks, and the
topic is a subtopology in a role: active, standby or warm-up (`streams.tasks`).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import field, replace
from typing import Final, Generic

from moldau.broker.coordinator.group.consumer.member_state import MemberState, may_follow
from moldau.broker.coordinator.group.consumer.partitions import (
    NOTHING_OWNED,
    K,
    OwnedBy,
    PartitionsBy,
    have_in_common,
    union,
)
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError

LEAVING_EPOCH: Final = -1
"""The epoch of a member that leaves or has left."""

STATIC_LEAVING_EPOCH: Final = -2
"""The epoch of a static member that left and is expected back."""


@dataclass(frozen=True, slots=True)
class Progress(Generic[K]):
    """The progress of a member towards its target: the content of record 8."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: OwnedBy[K] = field(default_factory=lambda: NOTHING_OWNED)
    revoking: OwnedBy[K] = field(default_factory=lambda: NOTHING_OWNED)
    """Partitions that the member may own until it reports that it does not."""

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member owns its whole target of this epoch."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch


@dataclass(frozen=True, slots=True)
class Target(Generic[K]):
    """The target of a member, and the conditions for reaching it."""

    epoch: int
    partitions: PartitionsBy[K]
    subscribed: Container[K]
    """The topics that the member still wants. It gets no partitions of other topics."""

    is_free: Callable[[K, int], bool]
    """Whether no member owns this partition or has yet to revoke it."""

    has_subscription_changed: bool = False


def next_step(now: Progress[K], target: Target[K], reported: PartitionsBy[K] | None) -> Progress[K]:
    """Return the progress of the member after this heartbeat; the same object if nothing changes.

    `reported` holds the partitions that the member reports as owned, None if it reports nothing.
    """
    after = _next_step(now, target, reported)
    assert may_follow(now.state, after.state), f"{now.state} cannot become {after.state}"
    return after


def _next_step(
    now: Progress[K], target: Target[K], reported: PartitionsBy[K] | None
) -> Progress[K]:
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


def _still_owns(reported: PartitionsBy[K] | None, revoking: OwnedBy[K]) -> bool:
    """Whether the member still owns any of `revoking`. Without a report the answer is yes."""
    return reported is None or have_in_common(reported, revoking)


def _advance(
    now: Progress[K], target: Target[K], reported: PartitionsBy[K] | None, epoch: int
) -> Progress[K]:
    """Divide the partitions into those to keep, to revoke, to take now, and to wait for."""
    assigned: dict[K, dict[int, int]] = {}
    revoking: dict[K, dict[int, int]] = {}
    gained: list[tuple[K, int]] = []
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


def _drop_unsubscribed(
    now: Progress[K], target: Target[K], reported: PartitionsBy[K] | None
) -> Progress[K]:
    """Revoke topics that the member no longer wants, before there is a new target."""
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
