"""Elect the leader of one partition: one change record or none.

An election happens when a broker joins or leaves, or when one is requested.

Invariants: a clean election selects only a replica that holds all committed records: one of the
in-sync replicas or, with KIP-966, of the eligible leader replicas (ELR). With KIP-966 the ISR may
become empty, and the ELR stays empty while the ISR is large enough. Without it the last in-sync
replica stays in the ISR when its broker leaves, because only the ISR records which replica holds
all committed records.

Order of choice:

1. the current leader;
2. the first of `replicas` that may lead cleanly;
3. the last known leader, if no other candidate is known (it lost data, so it starts as recovering);
4. any live replica, only if unclean elections are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from moldau.broker.controller.assignment import completed
from moldau.broker.controller.topics import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERING,
    RECOVERY_UNCHANGED,
    Partition,
)
from moldau.deferred import dataclass
from moldau.ids import Uuid
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord


class Election(Enum):
    """How far an election may go."""

    CLEAN = "only a replica that has all committed records"
    UNCLEAN = "any replica that is alive"
    PREFERRED = "the first of the replicas, if it can lead cleanly"


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The inputs of an election besides the partition."""

    may_lead: Callable[[int], bool]
    election: Election
    min_isr: int
    is_elr_enabled: bool
    are_directories_known: bool = True
    """Whether the cluster's metadata.version records the log directories of replicas."""


@dataclass(frozen=True, slots=True)
class _Elected:
    leader: int
    is_unclean: bool = False


def change_of(
    name: tuple[Uuid, int],
    partition: Partition,
    circumstances: Circumstances,
    *,
    leaving: int | None = None,
    lost_its_data: int | None = None,
) -> PartitionChangeRecord | None:
    """Return the change of the partition; None if nothing changes.

    `leaving` leaves the ISR. `lost_its_data` leaves ISR and ELR, because its shutdown was unclean.
    """
    isr = [each for each in partition.isr if each not in (leaving, lost_its_data)]
    elected = _elect(partition, isr, circumstances, lost_its_data)
    recovery = RECOVERY_UNCHANGED
    leader = LEADER_UNCHANGED
    if elected.leader != partition.leader:
        leader = elected.leader
        if leader != NO_LEADER and leader not in isr:
            isr = [leader]
        if elected.is_unclean:
            recovery = RECOVERING
    elif circumstances.election is Election.PREFERRED:
        return None
    if not circumstances.is_elr_enabled and not isr:
        isr = list(partition.isr)
    elr, last_known = _eligible(partition, isr, circumstances, lost_its_data, partition.replicas)
    record = PartitionChangeRecord(
        partition_id=name[1],
        topic_id=name[0],
        isr=_if_changed(isr, partition.isr),
        leader=leader,
        leader_recovery_state=(
            RECOVERY_UNCHANGED if recovery == partition.leader_recovery_state else recovery
        ),
        eligible_leader_replicas=_if_changed(elr, partition.elr),
        last_known_elr=_if_changed(last_known, partition.last_known_elr),
    )
    return None if _says_nothing(record) else record


def assignment_change(
    name: tuple[Uuid, int],
    before: Partition,
    wanted: Partition,
    circumstances: Circumstances,
) -> PartitionChangeRecord | None:
    """Return the change to the partition `wanted`, with another ISR or other replicas. If all added
    replicas are in sync, it also completes the reassignment. None if nothing changes.

    If replicas are removed, the leader epoch is raised, so that their fetches are rejected.
    """
    after = completed(wanted) or wanted
    isr = list(after.isr)
    elected = _elect(after, isr, circumstances, None)
    leader, recovery = LEADER_UNCHANGED, after.leader_recovery_state
    if elected.leader != before.leader:
        leader = elected.leader
        if leader != NO_LEADER and leader not in isr:
            isr = [leader]
        if elected.is_unclean:
            recovery = RECOVERING
    elif not set(before.replicas) <= set(after.replicas):
        leader = before.leader
    elr, last_known = _eligible(before, isr, circumstances, None, after.replicas)
    are_others = after.replicas != before.replicas
    record = PartitionChangeRecord(
        partition_id=name[1],
        topic_id=name[0],
        isr=None if set(isr) == set(before.isr) else isr,
        leader=leader,
        replicas=_if_changed(list(after.replicas), before.replicas),
        removing_replicas=_if_changed(list(after.removing_replicas), before.removing_replicas),
        adding_replicas=_if_changed(list(after.adding_replicas), before.adding_replicas),
        leader_recovery_state=(
            RECOVERY_UNCHANGED if recovery == before.leader_recovery_state else recovery
        ),
        directories=(
            list(after.directories) if are_others and circumstances.are_directories_known else None
        ),
        eligible_leader_replicas=_if_changed(elr, before.elr),
        last_known_elr=_if_changed(last_known, before.last_known_elr),
    )
    return None if _says_nothing(record) else record


def _elect(
    partition: Partition, isr: list[int], at: Circumstances, lost_its_data: int | None
) -> _Elected:
    elr = set(partition.elr) - {lost_its_data} if at.is_elr_enabled else set()

    def may_lead_cleanly(replica: int) -> bool:
        return (replica in isr or replica in elr) and at.may_lead(replica)

    preferred = partition.preferred_leader
    if at.election is Election.PREFERRED and may_lead_cleanly(preferred):
        return _Elected(preferred)
    if partition.has_leader and may_lead_cleanly(partition.leader):
        return _Elected(partition.leader)
    for replica in partition.replicas:
        if may_lead_cleanly(replica):
            return _Elected(replica)
    if at.is_elr_enabled and not isr and not elr and len(partition.last_known_elr) == 1:
        last_leader = partition.last_known_elr[0]
        if at.may_lead(last_leader):
            return _Elected(last_leader, is_unclean=True)
    if at.election is Election.UNCLEAN:
        for replica in partition.replicas:
            if at.may_lead(replica):
                return _Elected(replica, is_unclean=True)
    return _Elected(NO_LEADER)


def _eligible(
    partition: Partition,
    isr: list[int],
    at: Circumstances,
    lost_its_data: int | None,
    replicas: tuple[int, ...],
) -> tuple[list[int], list[int]]:
    """Return the ELR and the last known leader that belong to this ISR, among these replicas."""
    if not at.is_elr_enabled:
        return (
            [each for each in partition.elr if each in replicas],
            [each for each in partition.last_known_elr if each in replicas],
        )
    if len(isr) >= min(at.min_isr, len(replicas)):
        return [], []
    known = _in_order((*partition.elr, *partition.isr))
    gone = (lost_its_data, *isr)
    elr = [each for each in known if each in replicas and each not in gone]
    last_known = list(partition.last_known_elr)
    if isr:
        last_known = []
    elif partition.has_leader:
        last_known = [partition.leader]
    return elr, last_known


def _in_order(replicas: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(replicas))


def _if_changed(new: list[int], old: tuple[int, ...]) -> list[int] | None:
    return None if tuple(new) == old else new


def _says_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.isr is None
        and record.leader == LEADER_UNCHANGED
        and record.leader_recovery_state == RECOVERY_UNCHANGED
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.replicas is None
        and record.adding_replicas is None
        and record.removing_replicas is None
    )
