"""The reassignment of a partition from some replicas to others (KIP-455).

During the move `replicas` holds both: first the replicas of the goal, then those to remove.
`adding_replicas` are the replicas that the partition did not have before, `removing_replicas` the
ones that it will not have after.

Invariants: no replica is removed before every added replica is in sync. A cancelled move restores
the replicas before it. At least one replica stays in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from moldau.broker.controller.topics import Partition
from moldau.ids import Uuid


def is_moving(partition: Partition) -> bool:
    """Whether replicas are being added or removed."""
    return bool(partition.adding_replicas or partition.removing_replicas)


def goal_of(partition: Partition) -> tuple[int, ...]:
    """Return the replicas after the move."""
    leaving = partition.removing_replicas
    return tuple(each for each in partition.replicas if each not in leaving)


def towards(
    partition: Partition, goal: Sequence[int], new_directory: Callable[[int], Uuid]
) -> Partition:
    """Return the partition at the start of its move to the replicas `goal`.

    A replica that only an earlier move wanted is removed at once if it is neither in sync nor
    eligible. Otherwise it is removed at the end, like all others.
    """
    started = partition.adding_replicas
    before = [each for each in partition.replicas if each not in started]
    dropped = {
        each
        for each in started
        if each not in goal and each not in partition.isr and each not in partition.elr
    }
    leaving = [each for each in partition.replicas if each not in goal and each not in dropped]
    replicas = (*goal, *leaving)
    known = partition.replicas
    return replace(
        partition,
        replicas=replicas,
        adding_replicas=tuple(each for each in goal if each not in before),
        removing_replicas=tuple(leaving),
        directories=tuple(
            partition.directory_of(each) if each in known else new_directory(each)
            for each in replicas
        ),
    )


def cancelled(partition: Partition) -> Partition:
    """Return the partition as it was before the move. Its ISR is empty if only added replicas are
    in sync: then a replica that lacks records must lead."""
    added = partition.adding_replicas
    return _only(partition, [each for each in partition.replicas if each not in added])


def completed(partition: Partition) -> Partition | None:
    """Return the partition after its move, if all added replicas are in sync; None while the move
    continues, or if there is no move."""
    if not is_moving(partition):
        return None
    after = _only(partition, list(goal_of(partition)))
    is_done = bool(after.isr) and set(partition.adding_replicas) <= set(after.isr)
    return after if is_done else None


def _only(partition: Partition, replicas: list[int]) -> Partition:
    """Return the partition with only these replicas and no move."""
    return replace(
        partition,
        replicas=tuple(replicas),
        isr=tuple(each for each in partition.isr if each in replicas),
        adding_replicas=(),
        removing_replicas=(),
        directories=tuple(partition.directory_of(each) for each in replicas),
    )
