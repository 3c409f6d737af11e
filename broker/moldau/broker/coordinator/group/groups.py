"""All groups of one partition of `__consumer_offsets`, of every kind, and their offsets.

Invariants:
* A group id names one group. The log determines its kind. A group without members that only has
  offsets is a classic one without records of its own.
* A group that was created for a request is dropped unless one of its records was replayed before
  `settle`.
* Every group with a deadline is in the heap of deadlines, at its deadline or before.
* The offsets of a deleted topic are deleted: when the topic is deleted or, if the shard was not
  loaded then, when it is loaded next. A broker loads a shard when its metadata says that it leads
  the partition. This metadata is at least as new as the metadata of any offset in the log: each
  offset was stored with a topic id from metadata in which another broker led the shard. If the log
  rejects a deletion, it is tried again a moment later, unless a client has meanwhile committed
  there for a new topic of that name. A deletion that is too large for a batch is tried again at
  once in smaller parts.

The table routes and stores. A group's behaviour is in its class (`contract`), the state of offsets
in `offsets`. Requests about offsets are in `commits` and `fetches`, expiry in `expiry`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.coordinator.group.contract import (
    ClassicGroup,
    ClassicMembers,
    ConsumerGroup,
    Group,
    GroupKind,
    ShareGroup,
    StreamsGroup,
)
from moldau.broker.coordinator.group.expiry import Expiry
from moldau.broker.coordinator.group.offsets import Offsets, TopicPartition, from_legacy, tombstone
from moldau.broker.coordinator.outcome import NOTHING, Outcome, Ticket
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import (
        Cluster,
        Downgrade,
        GroupServices,
        RecordedGroup,
    )
    from moldau.broker.coordinator.group.kinds import Kinds
    from moldau.broker.decision.context import RequestContext
    from moldau.ids import Uuid
    from moldau.protocol.declare import LogKey, LogValue, Request
    from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from moldau.protocol.messages.heartbeat import HeartbeatRequest
    from moldau.protocol.messages.join_group import JoinGroupRequest
    from moldau.protocol.messages.leave_group import LeaveGroupRequest
    from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
    from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
    from moldau.protocol.messages.streams_group_topology_description_update import (
        StreamsGroupTopologyDescriptionUpdateRequest,
    )
    from moldau.protocol.messages.sync_group import SyncGroupRequest
    from moldau.protocol.schemas.group_log import GroupMetadataValue

TOMBSTONES_AT_ONCE: Final = 1000
RETRY_MS: Final = 500
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Groups:
    """A shard of the group coordinator; satisfies `coordinator.shard.Shard`."""

    def __init__(self, services: GroupServices, kinds: Kinds, offsets: Offsets) -> None:
        """`offsets` is the object that `services.has_offsets` reads."""
        self.services = services
        self.offsets = offsets
        self._kinds = kinds
        self._replays = kinds.replays
        self._requests = kinds.requests
        self._groups: dict[str, Group] = {}
        self._asked: dict[str, Group] = {}
        """Groups created for the request that is being decided. A group enters the table when one
        of its records is replayed."""
        self._made: dict[str, Downgrade | None] = {}
        """Groups that replay created and that have not been started yet. The value is set for a
        group that replaces a consumer group: the information that the consumer group leaves for
        it."""
        self._touched: dict[str, None] = {}
        self._due: list[tuple[int, str]] = []
        self._due_of: dict[str, int] = {}
        """The deadline of each group in the heap. Other entries of the heap are stale."""
        self._forgotten: dict[str, None] = {}
        """Groups to drop from the table if they have no offsets and never had a member."""
        self._former: list[tuple[str, TopicPartition]] | None = None
        """Offsets of topics that were deleted while the shard was not loaded, or whose deletion the
        log has rejected. None before the shard is loaded. Taken from the end."""
        self._former_at_once = TOMBSTONES_AT_ONCE
        """How many of them one batch deletes. It is lower after a batch that was too large, until
        none are left."""
        self._retry_ms: int | None = None
        """The time of the next attempt after the log rejected a deletion."""
        self.expiry = Expiry(self)

    # Lookup.

    def get(self, group_id: str) -> Group | None:
        """Return the group of this id, of any kind, or None."""
        return self._groups.get(group_id)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def existing(self, group_id: str) -> Group:
        """Return the group of this id. Raise GROUP_ID_NOT_FOUND if it does not exist."""
        group = self._groups.get(group_id)
        if group is None:
            raise not_found(group_id)
        return group

    def classic(self, group_id: str) -> ClassicGroup:
        """Return the classic group of this id. Raise GROUP_ID_NOT_FOUND if it does not exist."""
        group = self.existing(group_id)
        if group.kind is not GroupKind.CLASSIC:
            text = f"Group {group_id} is not a classic group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return cast("ClassicGroup", group)

    def consumer(self, group_id: str) -> ConsumerGroup:
        """Return the consumer group of this id. Raise GROUP_ID_NOT_FOUND if it does not exist."""
        group = self.existing(group_id)
        if group.kind is not GroupKind.CONSUMER:
            text = f"Group {group_id} is not a consumer group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return cast("ConsumerGroup", group)

    def touch(self, group_id: str) -> None:
        """Note that the group was called, which may have changed its deadline."""
        self._touched[group_id] = None

    def forget_if_bare(self, group_id: str) -> None:
        """Drop the group at the next `settle` if it then has no offsets and never had a member. Its
        offsets are being deleted, and it may have no record of its own to delete."""
        self._forgotten[group_id] = None

    # Members.

    def on_request(
        self, message: Request, context: RequestContext, ticket: Ticket, now_ms: int
    ) -> Outcome:
        """Decide about a request of a member, as its kind of group has registered."""
        return self._requests[type(message)](self, message, context, ticket, now_ms)

    def on_join_group(
        self, message: JoinGroupRequest, context: RequestContext, ticket: Ticket, now_ms: int
    ) -> Outcome:
        """Handle a JoinGroup request. A member without an id may create a group."""
        group_id = message.group_id
        group = self._groups.get(group_id)
        self.touch(group_id)
        if group is not None and not _is_replaced(group, GroupKind.CLASSIC):
            return _with_classic_members(group).on_join_group(message, context, ticket, now_ms)
        if message.member_id:  # An empty consumer group has no member with this id either.
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        fresh = self._asked[group_id] = self._kinds.make(GroupKind.CLASSIC, group_id, self.services)
        founded = cast("ClassicGroup", fresh).on_join_group(message, context, ticket, now_ms)
        return _instead_of(group, founded)

    def on_sync_group(self, message: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Outcome:
        group = self._of_member(message.group_id)
        self.touch(message.group_id)
        return group.on_sync_group(message, ticket, now_ms)

    def on_heartbeat(self, message: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Outcome:
        group = self._of_member(message.group_id)
        try:
            return group.on_heartbeat(message, ticket, now_ms)
        finally:
            touch_if_nearer(self, group)

    def on_leave_group(self, message: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> Outcome:
        group = self._of_member(message.group_id)
        self.touch(message.group_id)
        return group.on_leave_group(message, ticket, now_ms)

    def on_consumer_group_heartbeat(
        self,
        message: ConsumerGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome:
        """Handle a heartbeat. A joining member (epoch 0) may create or convert a group."""
        group_id = message.group_id
        group = self._groups.get(group_id)
        if group is not None and group.kind is GroupKind.CONSUMER:
            consumer = cast("ConsumerGroup", group)
            try:
                return consumer.on_consumer_group_heartbeat(message, context, ticket, now_ms)
            finally:
                touch_if_nearer(self, group)
        self.touch(group_id)
        if message.member_epoch != 0:
            if group is None and message.member_epoch > 0:
                text = f"Consumer group {group_id} not found."
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
            self.consumer(group_id)
        if group is not None and group.kind is not GroupKind.CLASSIC:
            self.consumer(group_id)  # raises: only a classic group is converted
        made = self._kinds.make(GroupKind.CONSUMER, group_id, self.services)
        fresh = cast("ConsumerGroup", made)
        self._asked[group_id] = fresh
        if group is None or _is_replaced(group, GroupKind.CONSUMER):
            outcome = fresh.on_consumer_group_heartbeat(message, context, ticket, now_ms)
            return _instead_of(group, outcome)
        classic = cast("ClassicGroup", group)
        return fresh.on_upgrade(classic, message, context, ticket, now_ms)

    def on_share_group_heartbeat(
        self,
        message: ShareGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome:
        """Handle a heartbeat of a share group. A joining member (epoch 0) may create a group, but
        converts none."""
        group_id = message.group_id
        group = self._groups.get(group_id)
        if group is None and message.member_epoch == 0:
            made = self._kinds.make(GroupKind.SHARE, group_id, self.services)
            group = self._asked[group_id] = made
            self.touch(group_id)
        if group is None and message.member_epoch > 0:
            text = f"Share group {group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        is_new = group_id in self._asked
        shares = cast("ShareGroup", group) if is_new else share_group(self, group_id)
        try:
            return shares.on_share_group_heartbeat(message, context, ticket, now_ms)
        finally:
            touch_if_nearer(self, shares)

    def on_streams_group_heartbeat(
        self,
        message: StreamsGroupHeartbeatRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome:
        """Handle a heartbeat of a streams group. A joining member (epoch 0) may create a group,
        also in the place of a classic one without members: the offsets stay."""
        group_id = message.group_id
        group = self._groups.get(group_id)
        if group is not None and group.kind is GroupKind.STREAMS:
            streams = cast("StreamsGroup", group)
            try:
                return streams.on_streams_group_heartbeat(message, context, ticket, now_ms)
            finally:
                touch_if_nearer(self, group)
        self.touch(group_id)
        if group is None and message.member_epoch > 0:
            text = f"Streams group {group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        is_replaced = group is None or _is_replaced(group, GroupKind.STREAMS)
        if message.member_epoch != 0 or not is_replaced:
            streams_group(self, group_id)  # raises
        made = self._kinds.make(GroupKind.STREAMS, group_id, self.services)
        fresh = cast("StreamsGroup", made)
        self._asked[group_id] = fresh
        outcome = fresh.on_streams_group_heartbeat(message, context, ticket, now_ms)
        return _instead_of(group, outcome)

    def _of_member(self, group_id: str) -> ClassicMembers:
        group = self._groups.get(group_id)
        if group is None or group.kind not in _WITH_CLASSIC_MEMBERS:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return cast("ClassicMembers", group)

    def on_topology_description(
        self,
        message: StreamsGroupTopologyDescriptionUpdateRequest,
        context: RequestContext,
        ticket: Ticket,
        now_ms: int,
    ) -> Outcome:
        """Handle the graph of a topology. A group that does not exist has no such member."""
        group = self._groups.get(message.group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return streams_group(self, message.group_id).on_topology_description(message, ticket)

    # The cluster.

    def on_topics_changed(
        self, changed: Collection[str], deleted: Iterable[str], now_ms: int
    ) -> Iterator[Outcome]:
        """Yield the outcomes of changed topics. Each must be carried out before the next is
        requested. The offsets of deleted topics are deleted."""
        for group_id, group in list(self._groups.items()):
            if self._groups.get(group_id) is group:
                self.touch(group_id)
                outcome = group.on_topics_changed(changed, now_ms)
                if outcome is not NOTHING:
                    yield outcome
        places = list(self.offsets.places_of_topics(deleted))
        for start in range(0, len(places), TOMBSTONES_AT_ONCE):
            part = places[start : start + TOMBSTONES_AT_ONCE]
            yield self._deleted(part)

    def _deleted(self, places: Sequence[tuple[str, TopicPartition]]) -> Outcome:
        """Delete offsets of deleted topics. A rejected deletion is tried again later."""

        def keep(error: KafkaError, failed_ms: int) -> Outcome:
            assert self._former is not None
            if error.code not in _TOO_LARGE:
                self._retry_ms = failed_ms + RETRY_MS
            elif len(places) == 1:
                # no smaller batch exists: keep the offset until the shard is loaded again
                return NOTHING
            else:
                self._former_at_once = min(self._former_at_once, len(places) // 2)
            self._former[:0] = places  # the others come first: they are taken from the end
            return NOTHING

        records = tuple(tombstone(group_id, *place) for group_id, place in places)
        return Outcome(records, on_failure=keep)

    # Replay.

    def replay(
        self, offset: int, producer_id: int, key: LogKey, value: LogValue | None, now_ms: int
    ) -> None:
        """Apply one record of the log. Records of kinds of groups that are not served here are
        ignored; they stay in the log."""
        if type(key) is OffsetCommitKey:
            assert value is None or isinstance(value, OffsetCommitValue)
            self._replay_offset(offset, producer_id, key, value)
        elif type(key) is LegacyOffsetCommitKey:
            assert value is None or isinstance(value, LegacyOffsetCommitValue)
            today = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
            read = None if value is None else from_legacy(value)
            self._replay_offset(offset, producer_id, today, read)
        else:
            replay = self._replays.get(type(key))
            if replay is not None:
                replay(self, key, value, now_ms)

    def replay_end(self, producer_id: int, *, is_commit: bool) -> None:
        """End a transaction: its pending offsets are committed or dropped."""
        for group_id in self.offsets.replay_end(producer_id, is_commit=is_commit):
            self._with_offsets(group_id)

    def _replay_offset(
        self, at: int, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None
    ) -> None:
        self.offsets.replay(at, producer_id, key, value)
        if value is not None and key.group not in self._groups:
            self._with_offsets(key.group)

    def _with_offsets(self, group_id: str) -> None:
        """Create a classic group for offsets whose group is not in the table."""
        if group_id not in self._groups and self.offsets.has_any(group_id):
            self._groups[group_id] = self._kinds.make(GroupKind.CLASSIC, group_id, self.services)
            self._made.setdefault(group_id, None)

    def replay_classic(self, group_id: str, value: GroupMetadataValue | None, now_ms: int) -> None:
        """Apply the record of a classic group."""
        group = self._groups.get(group_id)
        self.touch(group_id)
        if value is None:
            if group is not None and group.kind is GroupKind.CLASSIC:
                self._drop(group_id)
            return
        is_later = group is not None and group.kind is GroupKind.CLASSIC and not _is_bare(group)
        if group_id in self._made and (is_later or not value.members):
            self._made[group_id] = None  # the information from the consumer group has been used
        if group is None or group.kind is not GroupKind.CLASSIC or group_id in self._asked:
            group = self._take(group_id, GroupKind.CLASSIC)
        cast("ClassicGroup", group).replay_group_metadata(value, now_ms)

    def group_of_record(
        self, kind: GroupKind, group_id: str, *, is_deleted: bool
    ) -> RecordedGroup | None:
        """Return the group of a record of this kind. A first record with a value creates it."""
        group = self._groups.get(group_id)
        self.touch(group_id)
        if group is not None and group.kind is kind:
            return cast("RecordedGroup", group)
        if is_deleted:
            return None
        return cast("RecordedGroup", self._take(group_id, kind))

    def drop_of_record(self, group: RecordedGroup) -> None:
        """Drop the group after its tombstone was replayed."""
        self._drop(group.group_id)
        self._made[group.group_id] = group.downgrade

    def _take(self, group_id: str, kind: GroupKind) -> Group:
        """Return the group that records refer to: the one made for the request, or a new one."""
        asked = self._asked.get(group_id)
        if asked is not None and asked.kind is kind:
            self._groups[group_id] = asked
            self._made.pop(group_id, None)
            return asked
        group = self._kinds.make(kind, group_id, self.services)
        self._made.setdefault(group_id, None)
        self._groups[group_id] = group
        return group

    def _drop(self, group_id: str) -> None:
        self._groups.pop(group_id, None)
        self._made.pop(group_id, None)
        self._with_offsets(group_id)

    # After each step.

    @property
    def is_settled(self) -> bool:
        """Whether `settle` has nothing to do. This is so after most heartbeats and commits, which
        are most of the requests. (A group in `_asked` is in `_touched` too.)"""
        return not (self._touched or self._made or self._forgotten or self._former)

    def settle(self, now_ms: int) -> Outcome | None:
        """Start the groups that records created, and drop groups that were created for a request
        but not recorded. Return the next outcome to carry out, or None if nothing is left to do."""
        self._asked.clear()
        former = self._take_former(now_ms)
        if former:
            return self._deleted(former)
        while self._made:
            group_id, downgrade = self._made.popitem()
            group = self._groups.get(group_id)
            if group is None or (downgrade is not None and _is_bare(group)):
                continue
            self.touch(group_id)
            if downgrade is not None and group.kind is GroupKind.CLASSIC:
                return cast("ClassicGroup", group).on_downgraded(downgrade, now_ms)
            return group.on_loaded(now_ms)
        for group_id in self._forgotten:
            group = self._groups.get(group_id)
            if group is not None and _is_bare(group) and not self.offsets.has_any(group_id):
                del self._groups[group_id]
        self._forgotten.clear()
        self.expiry.begin(now_ms)
        for group_id in self._touched:
            self._schedule(group_id)
        self._touched.clear()
        return None

    def _take_former(self, now_ms: int) -> list[tuple[str, TopicPartition]]:
        """Remove and return the next offsets of deleted topics to delete. If the metadata does not
        have `__consumer_offsets`, no metadata is known yet, and no topic counts as deleted."""
        topic_id = partial(_topic_id, self.services.cluster)
        if self._former is None:
            self._former = []
            if self.services.cluster.by_name(GROUP_LOG.topic) is not None:
                self._former = self.offsets.places_of_former_topics(topic_id)
        elif self._retry_ms is not None:
            if now_ms < self._retry_ms:
                return []
            self._retry_ms = None
            are_former = self.offsets.are_former
            self._former = [each for each in self._former if are_former(*each, topic_id)]
        if not self._former:
            self._former_at_once = TOMBSTONES_AT_ONCE
        taken = self._former[-self._former_at_once :]
        del self._former[-self._former_at_once :]
        return taken

    def _schedule(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        due_ms = None if group is None else group.next_deadline_ms()
        known_ms = self._due_of.get(group_id)
        if due_ms is None:
            return  # an entry in the heap is checked when its time comes
        if known_ms is None or due_ms < known_ms:
            self._due_of[group_id] = due_ms
            heappush(self._due, (due_ms, group_id))

    # Time.

    def next_deadline_ms(self) -> int | None:
        """Return the earliest of: the first deadline of a group, the next search for expired
        offsets, and the next attempt of a deletion that the log rejected."""
        due_ms, retry_ms = self.expiry.next_ms, self._retry_ms
        if self._due and (due_ms is None or self._due[0][0] < due_ms):
            due_ms = self._due[0][0]
        if retry_ms is not None and (due_ms is None or retry_ms < due_ms):
            due_ms = retry_ms
        return due_ms

    def on_tick(self, now_ms: int) -> Outcome:
        """Handle the next group that is due, or a part of the search for expired offsets. `settle`,
        which follows, repeats rejected deletions."""
        while self._due and self._due[0][0] <= now_ms:
            entry_ms, group_id = heappop(self._due)
            if self._due_of.get(group_id) != entry_ms:
                continue  # a stale entry
            del self._due_of[group_id]
            group = self._groups.get(group_id)
            if group is None:
                continue
            due_ms = group.next_deadline_ms()
            self.touch(group_id)
            if due_ms is not None and due_ms <= now_ms:
                return group.on_tick(now_ms)
            self._schedule(group_id)
        expiry_ms = self.expiry.next_ms
        if expiry_ms is not None and expiry_ms <= now_ms:
            return self.expiry.on_tick(now_ms)
        return NOTHING

    def on_unloaded(self) -> tuple[Ticket, ...]:
        """Return the tickets that are parked in any group."""
        waiting: list[Ticket] = []
        for group in self._groups.values():
            waiting.extend(group.on_unloaded())
        return tuple(waiting)


_WITH_CLASSIC_MEMBERS: Final = (GroupKind.CLASSIC, GroupKind.CONSUMER)


def _with_classic_members(group: Group) -> ClassicMembers:
    """Return the group if classic members may join it. Raise INCONSISTENT_GROUP_PROTOCOL if not."""
    if group.kind not in _WITH_CLASSIC_MEMBERS:
        text = f"it is a {group.kind.value} group"
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
    return cast("ClassicMembers", group)


def share_group(groups: Groups, group_id: str) -> ShareGroup:
    """Return the share group of this id. Raise GROUP_ID_NOT_FOUND if it does not exist."""
    group = groups.existing(group_id)
    if group.kind is not GroupKind.SHARE:
        text = f"Group {group_id} is not a share group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
    return cast("ShareGroup", group)


def streams_group(groups: Groups, group_id: str) -> StreamsGroup:
    """Return the streams group of this id. Raise GROUP_ID_NOT_FOUND if it does not exist."""
    group = groups.existing(group_id)
    if group.kind is not GroupKind.STREAMS:
        text = f"Group {group_id} is not a streams group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
    return cast("StreamsGroup", group)


def touch_if_nearer(groups: Groups, group: Group) -> None:
    """Call `touch` if the group's deadline may be earlier now. Heartbeats and commits nearly always
    move it to a later time."""
    if group.has_nearer_deadline:
        groups.touch(group.group_id)


def not_found(group_id: str) -> KafkaError:
    """Return the error for a group that does not exist, with Kafka's message."""
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def _topic_id(cluster: Cluster, topic: str) -> Uuid | None:
    facts = cluster.by_name(topic)
    return None if facts is None else facts.topic_id


def _is_bare(group: Group) -> bool:
    """Whether the group can have only offsets: it is classic, and no member has ever joined."""
    return group.kind is GroupKind.CLASSIC and group.is_empty and not group.protocol_type


def _is_replaced(group: Group, wanted: GroupKind) -> bool:
    """Whether a request of another protocol replaces this group by a new one. An empty group makes
    room for a classic one, and an empty classic one for any other."""
    if GroupKind.CLASSIC not in (group.kind, wanted) or group.kind is GroupKind.SHARE:
        return False
    return group.kind is not wanted and group.is_empty


def _instead_of(old: Group | None, outcome: Outcome) -> Outcome:
    """Put the tombstones of the old group before the records of the new one."""
    if old is None or not outcome.records:
        return outcome
    return outcome._replace(records=(*old.tombstones(), *outcome.records))
