"""All groups of one partition of `__consumer_offsets`, of every kind, and their offsets.

Invariants:
* A group id names one group. What kind it is, the log says; a group that nobody has joined and that
  only has offsets is a classic one without records of its own.
* A group made for a request is gone again unless a record of it was replayed before `settle`.
* Every group that waits for something stands in the heap of deadlines, at its deadline or before.
* Offsets of a topic that is gone go: when it goes, or when the shard is loaded next, if it was not
  at that time. A shard is loaded where the metadata say so, and they are as new as any offset in
  its log: whoever stored one had its topic's id from metadata in which another led the shard. What
  the log refuses to delete is deleted a moment later, unless somebody has committed there for a
  new topic of that name meanwhile. What is too large for a batch goes in smaller parts, at once.

The table routes and keeps; what a group does is in its class (`contract`), what offsets say in
`offsets`. Requests about offsets are in `commits` and `fetches`, expiry in `expiry`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, cast

from moldau.broker.coordinator.group.contract import (
    ClassicGroup,
    ConsumerGroup,
    Group,
    GroupKind,
)
from moldau.broker.coordinator.group.expiry import Expiry
from moldau.broker.coordinator.group.offsets import Offsets, Place, from_legacy, tombstone
from moldau.broker.coordinator.group.records import replay_consumer_record
from moldau.broker.coordinator.outcome import NOTHING, Outcome, Ticket
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

if TYPE_CHECKING:
    from moldau.broker.coordinator.group.contract import Caller, Downgrade, GroupMakers, World
    from moldau.ids import Uuid
    from moldau.protocol.declare import LogKey, LogValue
    from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from moldau.protocol.messages.heartbeat import HeartbeatRequest
    from moldau.protocol.messages.join_group import JoinGroupRequest
    from moldau.protocol.messages.leave_group import LeaveGroupRequest
    from moldau.protocol.messages.sync_group import SyncGroupRequest

TOMBSTONES_AT_ONCE: Final = 1000
RETRY_MS: Final = 500
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Groups:
    """A shard of the group coordinator; satisfies `coordinator.shard.Shard`."""

    def __init__(self, world: World, makers: GroupMakers, offsets: Offsets) -> None:
        """`offsets` is what `world.has_offsets` looks at."""
        self.world = world
        self.offsets = offsets
        self._makers = makers
        self._groups: dict[str, Group] = {}
        self._asked: dict[str, Group] = {}
        """Made for the request that is being decided; in the table once a record says so."""
        self._made: dict[str, Downgrade | None] = {}
        """By replay, and not told yet; with what there is to be told in place of a consumer
        group."""
        self._touched: dict[str, None] = {}
        self._due: list[tuple[int, str]] = []
        self._due_of: dict[str, int] = {}
        """Where each group stands in the heap; other entries of it are stale."""
        self._forgotten: dict[str, None] = {}
        """To be left out of the table, if nothing is left of them."""
        self._former: list[tuple[str, Place]] | None = None
        """Offsets of topics that are gone, which went while nobody watched, or whose deletion the
        log has refused; None before the shard is loaded. Taken from the end."""
        self._former_at_once = TOMBSTONES_AT_ONCE
        """Less after a batch that was too large, until none of them is left."""
        self._retry_ms: int | None = None
        """After a refusal: until when they stay."""
        self.expiry = Expiry(self)

    # Looking up.

    def get(self, group_id: str) -> Group | None:
        """The group, of whatever kind."""
        return self._groups.get(group_id)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def existing(self, group_id: str) -> Group:
        """KafkaError GROUP_ID_NOT_FOUND when there is none."""
        group = self._groups.get(group_id)
        if group is None:
            raise not_found(group_id)
        return group

    def classic(self, group_id: str) -> ClassicGroup:
        """As `existing`, and of that kind."""
        group = self.existing(group_id)
        if group.kind is not GroupKind.CLASSIC:
            text = f"Group {group_id} is not a classic group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return cast("ClassicGroup", group)

    def consumer(self, group_id: str) -> ConsumerGroup:
        """As `existing`, and of that kind."""
        group = self.existing(group_id)
        if group.kind is not GroupKind.CONSUMER:
            text = f"Group {group_id} is not a consumer group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return cast("ConsumerGroup", group)

    def touch(self, group_id: str) -> None:
        """Something of the group was called, so its deadline may be another."""
        self._touched[group_id] = None

    def touch_if_nearer(self, group: Group) -> None:
        """As `touch`, after a sign of life: nearly all of them only move a deadline on."""
        if group.has_nearer_deadline:
            self.touch(group.group_id)

    def forget_if_bare(self, group_id: str) -> None:
        """Its offsets go, and it may have no record that could be deleted."""
        self._forgotten[group_id] = None

    # Members.

    def on_join_group(
        self, message: JoinGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> Outcome:
        """Who has no member id yet may found a group."""
        group_id = message.group_id
        group = self._groups.get(group_id)
        self.touch(group_id)
        if group is not None and not _is_replaced(group, GroupKind.CLASSIC):
            return group.on_join_group(message, caller, ticket, now_ms)
        if message.member_id:  # of an empty consumer group nobody is a member either
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        fresh = self._asked[group_id] = self._makers.classic(group_id, self.world)
        return _instead_of(group, fresh.on_join_group(message, caller, ticket, now_ms))

    def on_sync_group(self, message: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Outcome:
        group = self._of_member(message.group_id)
        self.touch(message.group_id)
        return group.on_sync_group(message, ticket, now_ms)

    def on_heartbeat(self, message: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Outcome:
        group = self._of_member(message.group_id)
        try:
            return group.on_heartbeat(message, ticket, now_ms)
        finally:
            self.touch_if_nearer(group)

    def on_leave_group(self, message: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> Outcome:
        group = self._of_member(message.group_id)
        self.touch(message.group_id)
        return group.on_leave_group(message, ticket, now_ms)

    def on_consumer_group_heartbeat(
        self, message: ConsumerGroupHeartbeatRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> Outcome:
        """Who joins (member epoch 0) may found a group, or turn a classic one."""
        group_id = message.group_id
        group = self._groups.get(group_id)
        if group is not None and group.kind is GroupKind.CONSUMER:
            consumer = cast("ConsumerGroup", group)
            try:
                return consumer.on_consumer_group_heartbeat(message, caller, ticket, now_ms)
            finally:
                self.touch_if_nearer(group)
        self.touch(group_id)
        if message.member_epoch != 0:
            if group is None and message.member_epoch > 0:
                text = f"Consumer group {group_id} not found."
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
            self.consumer(group_id)
        fresh = self._makers.consumer(group_id, self.world)
        self._asked[group_id] = fresh
        if group is None or _is_replaced(group, GroupKind.CONSUMER):
            outcome = fresh.on_consumer_group_heartbeat(message, caller, ticket, now_ms)
            return _instead_of(group, outcome)
        classic = cast("ClassicGroup", group)
        return fresh.on_upgrade(classic, message, caller, ticket, now_ms)

    def _of_member(self, group_id: str) -> Group:
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    # The cluster.

    def on_topics_changed(
        self, changed: Collection[str], deleted: Iterable[str], now_ms: int
    ) -> Iterator[Outcome]:
        """What the groups make of other topics: one outcome after the other, each to be done
        before the next is asked for. Offsets of deleted topics go."""
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

    def _deleted(self, places: Sequence[tuple[str, Place]]) -> Outcome:
        """Offsets of topics that are gone go, now or later."""

        def keep(error: KafkaError, failed_ms: int) -> Outcome:
            assert self._former is not None
            if error.code not in _TOO_LARGE:
                self._retry_ms = failed_ms + RETRY_MS
            elif len(places) == 1:
                return NOTHING  # no batch is smaller: it stays until the shard is loaded next
            else:
                self._former_at_once = min(self._former_at_once, len(places) // 2)
            self._former[:0] = places  # others come first
            return NOTHING

        records = tuple(tombstone(group_id, *place) for group_id, place in places)
        return Outcome(records, on_failure=keep)

    # Replay.

    def replay(
        self, offset: int, producer_id: int, key: LogKey, value: LogValue | None, now_ms: int
    ) -> None:
        """What the log says."""
        if type(key) is OffsetCommitKey:
            assert value is None or isinstance(value, OffsetCommitValue)
            self._replay_offset(offset, producer_id, key, value)
        elif type(key) is GroupMetadataKey:
            assert value is None or isinstance(value, GroupMetadataValue)
            self._replay_classic(key.group, value, now_ms)
        elif type(key) is LegacyOffsetCommitKey:
            assert value is None or isinstance(value, LegacyOffsetCommitValue)
            today = OffsetCommitKey(group=key.group, topic=key.topic, partition=key.partition)
            read = None if value is None else from_legacy(value)
            self._replay_offset(offset, producer_id, today, read)
        else:
            replay_consumer_record(self, key, value)

    def replay_end(self, producer_id: int, *, is_commit: bool) -> None:
        """Pending offsets become committed, or vanish."""
        for group_id in self.offsets.replay_end(producer_id, is_commit=is_commit):
            self._with_offsets(group_id)

    def _replay_offset(
        self, at: int, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None
    ) -> None:
        self.offsets.replay(at, producer_id, key, value)
        if value is not None and key.group not in self._groups:
            self._with_offsets(key.group)

    def _with_offsets(self, group_id: str) -> None:
        """There is a group wherever there are offsets."""
        if group_id not in self._groups and self.offsets.has_any(group_id):
            self._groups[group_id] = self._makers.classic(group_id, self.world)
            self._made.setdefault(group_id, None)

    def _replay_classic(self, group_id: str, value: GroupMetadataValue | None, now_ms: int) -> None:
        group = self._groups.get(group_id)
        self.touch(group_id)
        if value is None:
            if group is not None and group.kind is GroupKind.CLASSIC:
                self._drop(group_id)
            return
        is_later = group is not None and group.kind is GroupKind.CLASSIC and not _is_bare(group)
        if group_id in self._made and (is_later or not value.members):
            self._made[group_id] = None  # what a consumer group left to be done has been done
        if group is None or group.kind is not GroupKind.CLASSIC or group_id in self._asked:
            group = self._take(group_id, GroupKind.CLASSIC)
        cast("ClassicGroup", group).replay_group_metadata(value, now_ms)

    def consumer_of_record(self, group_id: str, *, is_deleted: bool) -> ConsumerGroup | None:
        """Whose record it is; made when a record with a value is the first of it."""
        group = self._groups.get(group_id)
        self.touch(group_id)
        if group is not None and group.kind is GroupKind.CONSUMER:
            return cast("ConsumerGroup", group)
        if is_deleted:
            return None
        return cast("ConsumerGroup", self._take(group_id, GroupKind.CONSUMER))

    def drop_consumer(self, group: ConsumerGroup) -> None:
        """Its tombstone was replayed."""
        self._drop(group.group_id)
        self._made[group.group_id] = group.downgrade

    def _take(self, group_id: str, kind: GroupKind) -> Group:
        """The group that records speak of: the one that was made for the request, or a new one."""
        asked = self._asked.get(group_id)
        if asked is not None and asked.kind is kind:
            self._groups[group_id] = asked
            self._made.pop(group_id, None)
            return asked
        group: Group
        if kind is GroupKind.CLASSIC:
            group = self._makers.classic(group_id, self.world)
        else:
            group = self._makers.consumer(group_id, self.world)
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
        """As after most heartbeats and commits, which are most of what there is to do. (Whatever
        is asked for touches its group.)"""
        return not (self._touched or self._made or self._forgotten or self._former)

    def settle(self, now_ms: int) -> Outcome | None:
        """Groups that records made begin to live; those made in vain are forgotten."""
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

    def _take_former(self, now_ms: int) -> list[tuple[str, Place]]:
        """Some of them. Without a topic of the log that this is made of no metadata are known."""
        if self._former is None:
            self._former = []
            if self.world.cluster.by_name(GROUP_LOG.topic) is not None:
                self._former = self.offsets.places_of_former_topics(self._id_of)
        elif self._retry_ms is not None:
            if now_ms < self._retry_ms:
                return []
            self._retry_ms = None
            are_former = self.offsets.are_former
            self._former = [each for each in self._former if are_former(*each, self._id_of)]
        if not self._former:
            self._former_at_once = TOMBSTONES_AT_ONCE
        taken = self._former[-self._former_at_once :]
        del self._former[-self._former_at_once :]
        return taken

    def _id_of(self, topic: str) -> Uuid | None:
        facts = self.world.cluster.by_name(topic)
        return None if facts is None else facts.topic_id

    def _schedule(self, group_id: str) -> None:
        group = self._groups.get(group_id)
        due_ms = None if group is None else group.next_deadline_ms()
        known_ms = self._due_of.get(group_id)
        if due_ms is None:
            return  # an entry that is in the heap finds so when its time comes
        if known_ms is None or due_ms < known_ms:
            self._due_of[group_id] = due_ms
            heappush(self._due, (due_ms, group_id))

    # Time.

    def next_deadline_ms(self) -> int | None:
        """That of the first group, of the search for offsets that are too old, or of another try to
        delete what the log has kept."""
        due_ms, retry_ms = self.expiry.next_ms, self._retry_ms
        if self._due and (due_ms is None or self._due[0][0] < due_ms):
            due_ms = self._due[0][0]
        if retry_ms is not None and (due_ms is None or retry_ms < due_ms):
            due_ms = retry_ms
        return due_ms

    def on_tick(self, now_ms: int) -> Outcome:
        """The next group that is due, or a part of the search. What the log has kept is deleted by
        `settle`, which follows."""
        while self._due and self._due[0][0] <= now_ms:
            entry_ms, group_id = heappop(self._due)
            if self._due_of.get(group_id) != entry_ms:
                continue  # it stands elsewhere in the heap
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
        """All who are parked in a group."""
        waiting: list[Ticket] = []
        for group in self._groups.values():
            waiting.extend(group.on_unloaded())
        return tuple(waiting)


def not_found(group_id: str) -> KafkaError:
    """As Kafka says it."""
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def _is_bare(group: Group) -> bool:
    """Only offsets are left of it."""
    return group.kind is GroupKind.CLASSIC and group.is_empty and not group.protocol_type


def _is_replaced(group: Group, wanted: GroupKind) -> bool:
    """Whether a request of the other protocol puts another group in the place of this one."""
    return group.kind is not wanted and group.is_empty


def _instead_of(old: Group | None, outcome: Outcome) -> Outcome:
    """The old group's end comes before the new one's records."""
    if old is None or not outcome.records:
        return outcome
    return outcome._replace(records=(*old.tombstones(), *outcome.records))
