"""Looks into the coordinators and the members after every event that can change them.

Those are: a coordinator has appended and replayed records, or loaded its log, or lets a member into
a sync; a member has heard an answer, or run a change of what it owns; a commit begins, or is
answered. Nothing else changes what is promised here, so looking then is looking after every event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

from moldau.broker.coordinator.batches import StoredRecord, TransactionMarker
from moldau.broker.coordinator.group.classic.group import ClassicGroup
from moldau.broker.coordinator.group.classic.states import ClassicGroupState as ClassicState
from moldau.broker.coordinator.group.consumer.group import ConsumerGroup
from moldau.broker.coordinator.group.coordinator import ShardGroupServices
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.kinds import Kinds
from moldau.broker.coordinator.group.offsets import Offsets
from moldau.broker.coordinator.outcome import LogRecord, Outcome
from moldau.broker.coordinator.running_shard import RunningShard
from moldau.broker.coordinator.shard import NO_PRODUCER
from moldau.broker.decision.log import Append
from moldau.broker.server import Broker
from moldau.client import TopicPartition
from moldau.client.consumer.membership import AnyMember
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.member import NOBODY, Identity, Member
from moldau.client.group.offsets import GroupOffsets
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, Uuid
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.messages.sync_group import SyncGroupRequest
from moldau.protocol.schemas.group_log import OffsetCommitKey, OffsetCommitValue
from moldau.records import coordinator_partition
from moldau.runtime.simulated.simulation import Simulation
from tests.broker.simulation.promises import demand
from tests.client.simulation.promises import Promise
from tests.client.simulation.reading import Reading
from tests.client.simulation.truth import Attempt, Truth

GHOST: Final = "ghost"
REFUSED: Final = frozenset(
    (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
)
"""A commit that was answered so is not stored, and will not be."""
COMMIT_VERSION: Final = 9


@dataclass(slots=True)
class Shard:
    """One partition of `__consumer_offsets`: all that was ever appended, and what that means."""

    tape: list[tuple[int, LogKey, LogValue | None]] = field(default_factory=list)
    meaning: Groups | None = None
    promised_end: int = 0
    """Below it everything was acknowledged to somebody."""
    home: Any = None

    def make_again(self) -> Groups:
        offsets = Offsets()
        meaning = self.meaning = Groups(ShardGroupServices(self.home, offsets), Kinds(), offsets)
        for offset, key, value in self.tape:
            meaning.replay(offset, NO_PRODUCER, key, value, 0)
        return meaning


class Watch:
    """See the module."""

    def __init__(
        self, world: Simulation, truth: Truth, broker: Callable[[], Broker | None], partitions: int
    ) -> None:
        """`broker`: the one that is up now; `partitions`: of `__consumer_offsets`."""
        self._world = world
        self.truth = truth
        self.readings: dict[str, Reading] = {}
        """By the name of the process."""
        self.identities: dict[str, list[Identity]] = {}
        """All that were ever valid, by group."""
        self._broker = broker
        self._partitions = partitions
        self._shards: dict[int, Shard] = {}
        self._found: dict[RunningShard[Groups], list[StoredRecord]] = {}
        """What shards that are being loaded have read."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Sees everything in the meantime that happens in this thread, which is all of the world:
        a broker in another thread of the process is none of its business."""
        with ExitStack() as stack:
            for owner, name, seen in (
                (RunningShard, "_replay_appended", self._on_append),
                (RunningShard, "_replay_log", self._on_load),
                (RunningShard, "_replay", self._on_replay),
                (ClassicGroup, "on_sync_group", self._on_sync),
                (ConsumerGroup, "on_sync_group", self._on_sync),
                (Member, "end_change", self._on_member),
                (ClassicConsumer, "on_answer", self._on_member),
                (ConsumerMember, "on_answer", self._on_member),
                (GroupOffsets, "_commit_once", self._on_commit),
            ):
                original = getattr(owner, name)
                here = _in_this_thread(seen(original), original)
                stack.enter_context(patch.object(owner, name, here))
            yield

    @contextmanager
    def looking(self) -> Iterator[None]:
        """What is found wrong ends the run: what was called from would go on, or hide it."""
        try:
            yield
        except AssertionError as error:
            self._world.fail(f"{type(error).__name__}: {error}", error)
            raise

    # Members.

    def _on_member(self, original: Callable[..., None]) -> Callable[..., None]:
        def seen(core: Member, *arguments: Any) -> None:
            original(core, *arguments)
            with self.looking():
                self.check_owners(core.terms.group_id)

        return seen

    def check_owners(self, name: str) -> None:
        """Of one group."""
        group = self._live(name)
        if group is None:
            return
        owners: dict[TopicPartition, Reading] = {}
        for reading in self.readings.values():
            if reading.group.name != name or reading.reader._group is None:
                continue
            member = reading.member
            if not member.owned:
                continue
            for where in self._valid(group, member.identity, self._owned(group, member)):
                other = owners.setdefault(where, reading)
                demand(
                    other is reading,
                    Promise.ONE_OWNER,
                    group=name,
                    at=where,
                    owners=(other, reading),
                    identities=(other.member.identity, member.identity),
                )

    def _owned(
        self, group: ClassicGroup | ConsumerGroup, member: AnyMember
    ) -> tuple[TopicPartition, ...]:
        """But what is of a topic that was deleted, and made again since.

        A classic member of a consumer group knows topics by their names alone, so it may think that
        it has the new one. And it may be thrown out and let in again under its id before it hears
        of it (Kafka lets in whoever has an id): until it has its new share it thinks that it has
        the old one. There what the coordinator gave counts.
        """
        if isinstance(member, ConsumerMember):
            ids = member._owned_ids
            return tuple(where for where in member.owned if self._is_of_now(where, ids.get(where)))
        if isinstance(group, ConsumerGroup):
            known = group.state.members.get(member.identity.member_id)
            parts = () if known is None else (known.progress.assigned, known.progress.revoking)
            names = group.state.services.cluster.by_name
            return tuple(
                where
                for where in member.owned
                if (topic := names(where.topic)) is not None
                and any(where.partition in each.get(topic.topic_id, ()) for each in parts)
            )
        return member.owned

    def _is_of_now(self, where: TopicPartition, topic_id: Uuid | None) -> bool:
        broker = self._broker()
        topic = None if broker is None else broker.node.image.topics.by_name(where.topic)
        return topic_id is None or (topic is not None and topic.topic_id == topic_id)

    def _live(self, name: str) -> ClassicGroup | ConsumerGroup | None:
        broker = self._broker()
        if broker is None:
            return None
        for _, groups in broker.node.groups.loaded():
            found = groups.get(name)
            if found is not None:
                assert isinstance(found, ClassicGroup | ConsumerGroup)
                return found
        return None

    def _valid(
        self,
        group: ClassicGroup | ConsumerGroup,
        identity: Identity,
        owned: tuple[TopicPartition, ...],
    ) -> list[TopicPartition]:
        """What it could commit now."""
        if identity == NOBODY:
            return []
        member_id, epoch, instance_id = identity
        try:
            check = group.check_commit(member_id, instance_id, epoch, COMMIT_VERSION, is_txn=False)
        except KafkaError:
            return []
        known = self.identities.setdefault(group.group_id, [])
        if not known or identity not in known[-8:]:
            known.append(identity)
        if check is None:
            return list(owned)
        valid = []
        for where in owned:
            try:
                check(where.topic, ZERO_UUID, where.partition)
            except KafkaError:
                continue
            valid.append(where)
        return valid

    def _on_sync(self, original: Callable[..., Outcome]) -> Callable[..., Outcome]:
        """Who is refused hears a KafkaError."""

        def seen(
            group: ClassicGroup | ConsumerGroup, message: SyncGroupRequest, *more: Any
        ) -> Outcome:
            present = _generation_of(group, message.member_id)
            outcome = original(group, message, *more)
            self.truth.counts[f"syncs in {group.kind.value} groups"] += 1
            with self.looking():
                demand(
                    message.generation_id == present,
                    Promise.SYNC_OF_GENERATION,
                    group=group.group_id,
                    member=message.member_id,
                    asked=message.generation_id,
                    present=present,
                )
            return outcome

        return seen

    # Commits, as clients see them.

    def _on_commit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def seen(
            offsets: GroupOffsets, left: dict[TopicPartition, Any], *grounds: Any
        ) -> None:
            group = self.truth.groups[offsets._coordinator.group_id]
            tried = {where: group.tries(where, each.offset) for where, each in left.items()}
            since = {where: group.now(where) for where in tried}
            try:
                await original(offsets, left, *grounds)
            except KafkaError as error:
                if error.code in REFUSED:
                    for where in left:
                        group.is_answered(where, tried[where])
                raise
            finally:
                with self.looking():
                    for where in [each for each in tried if each not in left]:
                        self._committed(group.name, where, tried[where], since[where])

        return seen

    def _committed(self, name: str, where: TopicPartition, tried: Attempt, since: int) -> None:
        """A client has heard that this is stored."""
        group, offset = self.truth.groups[name], tried.offset
        self.truth.counts["commits"] += 1
        demand(
            offset in group.history[where][since:],
            Promise.COMMITTED_WRITTEN,
            group=name,
            at=where,
            offset=offset,
            stored=group.history[where][since:][-5:],
        )
        group.is_answered(where, tried)
        for shard in self._shards.values():
            meaning = shard.meaning
            known = None if meaning is None else meaning.offsets.get(name, *where)
            if known is not None and known.offset == offset:
                shard.promised_end = max(shard.promised_end, known.written_at + 1)

    # The coordinators' logs.

    def _on_append(self, original: Callable[..., None]) -> Callable[..., None]:
        def seen(
            shell: RunningShard[Groups], offset: int, append: Append[LogRecord], now_ms: int
        ) -> None:
            original(shell, offset, append, now_ms)
            with self.looking():
                self._appended(shell, append.records)

        return seen

    def _appended(self, shell: RunningShard[Groups], records: Sequence[LogRecord]) -> None:
        shard, live = self._shards[shell.partition.index], shell.shard
        meaning = shard.meaning
        assert meaning is not None
        first = shell.partition.log_end_offset - len(records)
        touched: dict[str, None] = {}
        for at, record in enumerate(records, first):
            shard.tape.append((at, record.key, record.value))
            meaning.replay(at, NO_PRODUCER, record.key, record.value, 0)
            touched[_group_of(record.key)] = None
            if isinstance(record.key, OffsetCommitKey):
                self._on_offset(record.key, record.value, live)
        for name in touched:
            _compare(live, meaning, name)
            self.check_owners(name)

    def _on_offset(
        self, key: OffsetCommitKey, value: LogValue | None, live: Groups | None = None
    ) -> None:
        """`live`: the shard that has appended it just now, if it was not found in the log of a life
        before."""
        assert value is None or isinstance(value, OffsetCommitValue)
        group = self.truth.groups.get(key.group)
        if group is None:
            return
        where = TopicPartition(key.topic, key.partition)
        is_ghost = value is not None and value.metadata.startswith(GHOST)
        if value is not None and live is not None:
            if is_ghost:
                self._check_ghost(key, value, live)
            elif not group.is_free:
                self._check_end(where, value)
        group.on_stored(where, None if value is None else value.offset, may_go_back=is_ghost)

    def _check_end(self, where: TopicPartition, value: OffsetCommitValue) -> None:
        """Of the topic that has the name now, if it is the one that was meant."""
        broker = self._broker()
        if broker is None or not self._is_of_now(where, value.topic_id):
            return
        try:
            end = broker.node.replicas.partition(*where).log_end_offset
        except KafkaError:  # it is just being made
            return
        demand(
            value.offset <= end,
            Promise.COMMITTED_OF_TOPIC,
            at=where,
            offset=value.offset,
            log_end=end,
        )

    def _check_ghost(self, key: OffsetCommitKey, value: OffsetCommitValue, live: Groups) -> None:
        """It came under an id and epoch that were valid once: that member must be as far still."""
        _, member_id, epoch = value.metadata.split(" ")
        group = live.get(key.group)
        is_valid = False
        if isinstance(group, ClassicGroup):
            is_valid = member_id in group.members and group.generation_id == int(epoch)
        elif isinstance(group, ConsumerGroup):
            member = group.state.members.get(member_id)
            is_owner = value.topic_id in group.state.owners and (
                group.state.owners[value.topic_id].get(key.partition) == member_id
            )
            is_valid = member is not None and (is_owner or member.epoch == int(epoch))
        demand(
            is_valid,
            Promise.FENCED,
            group=key.group,
            member=member_id,
            epoch=epoch,
            partition=key.partition,
        )
        self.truth.counts["ghosts that were valid again"] += 1

    def _on_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def seen(shell: RunningShard[Groups]) -> int:
            count: int = await original(shell)
            if shell.is_closed():
                return count
            with self.looking():
                self._loaded(shell, self._found.pop(shell, []))
            return count

        return seen

    def _on_replay(self, original: Callable[..., None]) -> Callable[..., None]:
        def seen(
            shell: RunningShard[Groups], entries: Sequence[StoredRecord | TransactionMarker]
        ) -> None:
            original(shell, entries)
            found = self._found.setdefault(shell, [])
            found += [each for each in entries if isinstance(each, StoredRecord)]

        return seen

    def _loaded(self, shell: RunningShard[Groups], found: list[StoredRecord]) -> None:
        index, end = shell.partition.index, shell.partition.log_end_offset
        shard, live = self._shards.setdefault(index, Shard()), shell.shard
        demand(
            shard.promised_end <= end,
            Promise.COMMITTED_SURVIVES,
            partition=index,
            promised_to=shard.promised_end,
            found_end=end,
        )
        lost = len(shard.tape)
        while shard.tape and shard.tape[-1][0] >= end:
            shard.tape.pop()
        self.truth.counts["coordinator records lost"] += lost - len(shard.tape)
        self.truth.counts["shards loaded"] += 1
        # What was appended as the broker died nobody has seen; it may be there all the same.
        known_end = shard.tape[-1][0] + 1 if shard.tape else 0
        for each in found:
            if each.offset >= known_end:
                shard.tape.append((each.offset, each.key, each.value))
                if isinstance(each.key, OffsetCommitKey):
                    self._on_offset(each.key, each.value)
        shard.home = live.services._node  # type: ignore[attr-defined]
        _compare_all(live, shard.make_again())
        self._note_stored(index, live)

    def _note_stored(self, index: int, live: Groups) -> None:
        """Of the groups that live there."""
        for name, group in self.truth.groups.items():
            if coordinator_partition(name, self._partitions) != index:
                continue
            stored = live.offsets.of_group(name)
            for where in list(group.history):
                known = stored.get(where.topic, {}).get(where.partition)
                group.on_lost(where, None if known is None else known.offset)


def _in_this_thread(seen: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """`seen` for who calls in this thread, `original` for others."""
    thread = threading.get_ident()

    def call(*arguments: Any) -> Any:
        return (seen if threading.get_ident() == thread else original)(*arguments)

    return call


def _generation_of(group: ClassicGroup | ConsumerGroup, member_id: str) -> int | None:
    """The one that the member is in; to a consumer group's each has its own."""
    if isinstance(group, ClassicGroup):
        return group.generation_id if member_id in group.members else None
    member = group.state.members.get(member_id)
    return None if member is None else member.epoch


def _group_of(key: LogKey) -> str:
    name = getattr(key, "group", None) or getattr(key, "group_id", None)
    assert isinstance(name, str), key
    return name


def _compare_all(live: Groups, meaning: Groups) -> None:
    names = {
        each.group_id: None for groups in (live, meaning) for each in groups if not _is_bare(each)
    }
    for name in (*names, *live.offsets.groups(), *meaning.offsets.groups()):
        _compare(live, meaning, name)


def _compare(live: Groups, meaning: Groups, name: str) -> None:
    """What lasts of a group, here and there."""
    here, there = live.get(name), meaning.get(name)
    demand(
        live.offsets.of_group(name) == meaning.offsets.of_group(name)
        and _lasting(here, here) == _lasting(there, here),
        Promise.SHARD_IS_ITS_LOG,
        group=name,
        live=(_lasting(here, here), live.offsets.of_group(name)),
        log=(_lasting(there, here), meaning.offsets.of_group(name)),
    )


def _is_bare(group: Any) -> bool:
    return isinstance(group, ClassicGroup) and group.is_empty and not group.protocol_type


def _lasting(group: Any, live: Any) -> Mapping[str, object]:
    """What the log says of a group. Of a classic one that is in the midst of a rebalance it says
    how the group was before."""
    if isinstance(group, ConsumerGroup):
        state = group.state
        return {
            "epoch": state.epoch,
            "hash": state.metadata_hash,
            "target_epoch": state.target_epoch,
            "members": state.members,
            "target": state.target,
            "resolved": state.resolved,
            "static": state.static,
            "owners": state.owners,
            "names": state.names,
            "classic": state.classic_count,
        }
    if not isinstance(group, ClassicGroup) or _is_bare(group):
        return {}
    if isinstance(live, ClassicGroup) and live.state is not ClassicState.STABLE:
        return {}
    return {
        "generation": group.generation_id,
        "protocol": (group.protocol_type, group.protocol_name),
        "leader": group.leader_id,
        "members": {
            each.member_id: (each.instance_id, each.assignment) for each in group.members.values()
        },
    }
