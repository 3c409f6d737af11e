"""Convert a consumer group back to a classic one, when only classic members are left.

All records of the group are deleted and one GroupMetadata replaces them, with each member's target
as its assignment. The classic group then rebalances, so that its members select an assignor
themselves again. It need not if a classic member only replaced the last member of the new protocol
and there is nothing new to assign.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from moldau.broker.coordinator.group.classic.member import Member as ClassicMember
from moldau.broker.coordinator.group.classic.member import MemberProtocol
from moldau.broker.coordinator.group.classic.protocols import select_protocol
from moldau.broker.coordinator.group.classic.records import member_metadata, recorded
from moldau.broker.coordinator.group.consumer.embedded_protocol import (
    PROTOCOL_TYPE,
    assignment_bytes,
)
from moldau.broker.coordinator.group.consumer.member import Member
from moldau.broker.coordinator.group.consumer.partitions import Partitions
from moldau.broker.coordinator.group.consumer.records import (
    group_deleted,
    member_profile_deleted,
    member_progress_deleted,
    partition_metadata_deleted,
    regex_deleted,
    target_epoch_deleted,
    target_of_member_deleted,
)
from moldau.broker.coordinator.group.consumer.state import ConsumerGroupState
from moldau.broker.coordinator.group.contract import Downgrade
from moldau.broker.coordinator.outcome import LogRecord
from moldau.broker.settings.coordinator import group_consumer_migration_policy, group_max_size
from moldau.protocol.schemas.group_log import GroupMetadataValue

_ALLOWING: Final = ("DOWNGRADE", "BIDIRECTIONAL")


def may_downgrade(state: ConsumerGroupState, gone: Collection[Member], *, come: int = 0) -> bool:
    """Whether the group becomes a classic one after the members `gone` have left and `come` classic
    members have replaced some of them."""
    classic = state.classic_count - sum(each.speaks_classic for each in gone) + come
    left = len(state.members) - len(gone) + come
    settings = state.services.settings
    return (
        0 < left == classic
        and settings[group_consumer_migration_policy].upper() in _ALLOWING
        and left <= settings[group_max_size]
    )


def tombstones(
    state: ConsumerGroupState, member_ids: Iterable[str] | None = None
) -> tuple[LogRecord, ...]:
    """Return the tombstones that delete the group, in the order that readers rely on. `member_ids`:
    the members that have records by then, if they are not the current ones."""
    group_id = state.group_id
    ids = sorted(state.members if member_ids is None else member_ids)
    return (
        *(member_progress_deleted(group_id, each) for each in ids),
        *(target_of_member_deleted(group_id, each) for each in ids),
        target_epoch_deleted(group_id),
        *(member_profile_deleted(group_id, each) for each in ids),
        *(regex_deleted(group_id, regex) for regex in sorted(state.resolved)),
        partition_metadata_deleted(group_id),
        group_deleted(group_id),
    )


def remember(state: ConsumerGroupState, stay: Collection[Member], *, rebalances: bool) -> None:
    """Remember the assignors that the members offer besides the selected one: the record of the
    classic group does not hold them. So a new member that shares another assignor is accepted, as
    in Kafka."""
    offers = {each.member_id: each.classic_protocols for each in stay}
    state.volatile.downgrade = Downgrade(rebalances, offers)


def downgraded(state: ConsumerGroupState, stay: Collection[Member]) -> tuple[LogRecord, ...]:
    """Return the records that convert the group to a classic one with these members."""
    return (
        *tombstones(state),
        classic_record(state, [(each, state.target_of(each)) for each in stay]),
    )


def classic_record(
    state: ConsumerGroupState, stay: Collection[tuple[Member, Partitions]]
) -> LogRecord:
    """Return the GroupMetadata record of classic members and their partitions."""
    members = [_classic(state, member, partitions) for member, partitions in stay]
    protocol = select_protocol(members)
    return recorded(
        state.group_id,
        GroupMetadataValue(
            protocol_type=PROTOCOL_TYPE,
            generation=state.epoch,
            protocol=protocol,
            leader=members[0].member_id,
            members=[member_metadata(each, protocol, each.assignment) for each in members],
        ),
    )


def _classic(state: ConsumerGroupState, member: Member, partitions: Partitions) -> ClassicMember:
    profile = member.profile
    classic = profile.classic
    assert classic is not None
    metadata = classic.supported_protocols[0].metadata
    return ClassicMember(
        member_id=member.member_id,
        instance_id=profile.instance_id,
        client_id=profile.client_id,
        client_host=profile.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=profile.rebalance_timeout_ms,
        protocols=tuple(
            MemberProtocol(each.name, each.metadata) for each in classic.supported_protocols
        ),
        assignment=assignment_bytes(partitions, metadata, state.services.cluster),
    )
