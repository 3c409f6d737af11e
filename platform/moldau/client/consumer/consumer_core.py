"""What a consumer does, decided without IO: what to look up, what to fetch, what to return.

State: a `Position` for each assigned partition, in the order of their turns (`position` has the
states of one partition); the fetches of each broker (`fetch`); the records that were taken from
positions and not processed yet, and what of others is committed (`progress`); and the user's choice
(`interest`).

Events, which change the state and return nothing:

    on_interest        the user subscribes, or assigns partitions
    on_assigned        these partitions are read from now on, and no others
    on_metadata        topics and leaders as of now
    on_seek, on_pause  by the user
    on_unreachable     no connection to a broker can be made
    on_fetched         a fetch was answered, or there was no answer
    on_looked_up       a look-up was answered, or there was no answer
    on_emptied         records were taken that other fetches may replace

`ready(now)` passes over the positions once and returns all there is to do: fetches by broker,
look-ups by leader, whether metadata are out of date, what to log, whether a poll has an error to
raise, and the next deadline. What it returns counts as begun. `take` and `take_columns` open
fetched records for a poll.

Invariants:
- At most one fetch a broker is pending, and one look-up of each kind and leader. An answer counts
  only for a position that has not moved since (`current`).
- A partition with `fetch_bytes` in its buffer is not fetched, and nothing is while all buffers hold
  `memory_bytes`. Paused partitions keep their buffers.
- A partition that is assigned again starts fresh, but how far its user had read, and in which topic
  (`topic_identity`), is kept until the user subscribes or assigns again. A topic that comes back
  under its old name is another one, by its id: its partitions start at its beginning, or wait until
  the group assigns them again. Offsets are committed to the topic they were read from.
- A partition that is no longer read leaves neither fetched records nor commits behind.

One pass, and no object between the state and the decision: before, five objects shared this state,
and one fetch asked all positions nine times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import count
from typing import TYPE_CHECKING, Final, TypeVar

from moldau.client.base.arguments import OffsetAndMetadata
from moldau.client.base.columns import PartitionColumns
from moldau.client.base.offsets import EpochEnd, FoundOffset
from moldau.client.base.part import Part
from moldau.client.consumer.fetch import (
    SESSION_ERRORS,
    BrokerFetches,
    Fetch,
    partitions_of,
)
from moldau.client.consumer.position import (
    MISSED,
    Position,
    PositionState,
    ReadPolicy,
    RequestedPosition,
    Take,
    lasting_troubles,
)
from moldau.client.consumer.progress import ReadProgress
from moldau.client.consumer.records import FetchedRecords, PartitionRecords
from moldau.client.consumer.topic_identity import Former, TopicIdentity
from moldau.client.group.missing import MissingTopics, unreachable
from moldau.client.group.subscription import Interest
from moldau.deferred import dataclass
from moldau.errors import MoldauError
from moldau.errors.codes import ErrorCode, KafkaError, error_from
from moldau.ids import ZERO_UUID, Uuid
from moldau.link.addresses import Address
from moldau.link.metadata import NO_LEADER, Metadata, TopicPartition
from moldau.protocol.messages.fetch import FetchResponse, PartitionData

if TYPE_CHECKING:
    from moldau.client.consumer.transactional import TransactionalProgress

_SHORTEST_WAIT_S: Final = 0.001
_LOOKED_UP: Final = (PositionState.COMMITTED, PositionState.UNKNOWN, PositionState.VALIDATING)
_NEVER: Final = (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NO_IDS: Final[Mapping[TopicPartition, Uuid]] = {}

S = TypeVar("S", bound=Part)
Answer = OffsetAndMetadata | FoundOffset | EpochEnd | KafkaError | None


@dataclass(frozen=True, slots=True)
class LookUp:
    """Positions to look up, by `state`: the committed offsets (COMMITTED), an end of the log or a
    time (UNKNOWN), or the ends of epochs (VALIDATING)."""

    state: PositionState
    leader: int
    """The broker to ask; -1 for the group's coordinator."""
    positions: list[RequestedPosition]


@dataclass(frozen=True, slots=True)
class ConsumerReady:
    """What the shell must do, in this order."""

    look_ups: Collection[LookUp] = ()
    fetches: Collection[Fetch] = ()
    is_stale: bool = False
    """Whether something says that the metadata are out of date."""
    lacks_leaders: bool = False
    """Whether newer metadata are needed, unless some are requested already."""
    notices: Collection[MoldauError] = ()
    has_failed: bool = False
    """Whether a poll has an error to raise."""
    wake: float | None = None


class ConsumerCore:
    """All that one consumer knows, and what follows from it."""

    def __init__(
        self,
        policy: ReadPolicy,
        fetches: BrokerFetches,
        metadata: Metadata,
        missing: MissingTopics,
        *,
        lock: AbstractContextManager[object] | None = None,
        has_group: bool = False,
    ) -> None:
        """`metadata` are the cluster's, kept up to date. `lock` is for a thread that reads what was
        taken."""
        self.policy = policy
        self.fetches = fetches
        self.metadata = metadata
        self.interest = Interest()
        self.has_interest = False
        """Whether anything is subscribed or assigned."""
        self.refusal: KafkaError | None = None
        """Why a subscribed topic can never be read; the next poll raises it."""
        self.chosen: Collection[TopicPartition] | None = None
        """The only partitions whose records may be returned at present; None for all."""
        self.emptied: dict[str, int] = {}
        """Bytes of fetches whose records were all returned, by topic, until they are counted."""
        self.missed = 0
        """How many records were deleted before they were read, since the consumer started."""
        self.blind_for: KafkaError | None = None
        """Why no newer metadata come; None if they do."""
        self.is_overdue = False
        """Whether there may be something to fetch that was not requested yet."""
        self.released_at: float | None = None
        """Until when positions wait for a commit or a listener before they are looked up."""
        self.transactional: TransactionalProgress | None = None
        """If set, a producer commits what is read, in its transactions."""
        self._has_group = has_group
        self._missing = missing
        self.positions: dict[TopicPartition, Position] = {}
        """Those of the assigned partitions, in the order of their turns."""
        self.progress = ReadProgress(self.positions, lock)
        self.taken_away: dict[TopicPartition, Former] = {}
        """How far the user had read in partitions taken away: they may be assigned again."""
        self._first_state = PositionState.UNKNOWN
        self._next_generation: Callable[[], int] = count().__next__
        self._notices: list[MoldauError] = []
        self._has_met_failed = False
        self._lacked_since: dict[str, int] = {}
        """The topics that metadata lack, with the number of the update that first lacked them."""
        self._looking: set[tuple[PositionState, int]] = set()
        self._is_stale = self._lacks_leaders = False

    # Which partitions

    def require(self, where: TopicPartition) -> Position:
        """Return the partition's position. Raise KafkaError if it is not assigned."""
        position = self.positions.get(where)
        if position is None:
            reason = "the partition is not assigned to this consumer"
            raise KafkaError(_UNKNOWN, reason, **where._asdict())
        return position

    def current(self, requested: RequestedPosition) -> Position | None:
        """Return the position that a request was about; None if it was moved or dropped."""
        position = self.positions.get(requested.where)
        if position is None or position.generation != requested.generation:
            return None
        return position

    def on_interest(self, interest: Interest) -> None:
        """Replace the subscription or manual assignment."""
        self.interest, self.has_interest = interest, bool(interest)
        if self.refusal is not None and self.refusal.context["topic"] not in interest.names:
            self.refusal = None
        self.taken_away.clear()

    def on_assigned(
        self,
        wanted: Iterable[TopicPartition],
        *,
        from_committed: bool = False,
        ids: Mapping[TopicPartition, Uuid] = NO_IDS,
    ) -> None:
        """Read these partitions and no others. Those that stay keep their positions and buffers.
        New ones start at the committed offset with `from_committed`. `ids` are the topic ids that
        the group assigned."""
        before, wanted = dict(self.positions), dict.fromkeys(wanted)
        gone = before.keys() - wanted.keys()
        if self.transactional is not None:
            self.transactional.on_taken(gone)
        self._first_state = PositionState.COMMITTED if from_committed else PositionState.UNKNOWN
        self.positions.clear()
        for where in wanted:
            self.positions[where] = before.get(where) or self._made(where, ids)
        self.progress.paused.intersection_update(self.positions)
        for where in gone:
            self._settle(before[where])
            former = before[where].as_former()
            if former is not None:
                self.taken_away[where] = former
        self.on_topics()
        self._drop(gone)

    def _made(self, where: TopicPartition, ids: Mapping[TopicPartition, Uuid]) -> Position:
        """Create a position: new, or continued, possibly in another topic of the same name."""
        identity = TopicIdentity(self.taken_away.pop(where, None), ids.get(where, ZERO_UUID))
        state, generations = self._first_state, self._next_generation
        return Position(where, self.policy, state, generations, self._notices, identity)

    def _drop(self, partitions: Collection[TopicPartition]) -> None:
        self.progress.drop(partitions)
        self.progress.on_moved(partitions)

    def _settle(self, position: Position) -> None:
        """Check whether the user still has records of a former topic of this name."""
        if position.identity.former is not None:
            position.identity.on_given(
                self.progress.returned().get(position.where, position.position)
            )

    def on_topics(self) -> None:
        """Drop what was fetched of topics that metadata have replaced by others of their names."""
        consumed = self.progress.returned()
        changed = set()
        for each in self.positions.values():
            topic = self.metadata.topics.get(each.where.topic)
            if topic is None or topic.topic_id in (ZERO_UUID, each.topic_id):
                continue
            offset = consumed.get(each.where, each.position)
            if each.name_topic(topic.topic_id, offset, self._first_state):
                changed.add(each.where)
        self._drop(changed)

    def on_metadata(self, group_id: str | None, now: float) -> None:
        """Apply new metadata to the subscription: keep a topic's final error, note missing ones."""
        names, refused = self.interest.names, self.metadata.refused
        for name in sorted(names):
            code = refused.get(name)
            if code in _NEVER:
                self.refusal = error_from("Fetch", code, topic=name, group=group_id)
        self._notices += self._missing.on_metadata(names, self.metadata, now)

    def subscribed(self) -> dict[TopicPartition, None]:
        """Return what to read without a group: also what is new. A topic may be missing from one
        answer; one of a pattern that two in a row do not have is given up, as it was deleted."""
        metadata, interest = self.metadata, self.interest
        now, before = metadata.updates, self._lacked_since
        lacked = [name for name, code in metadata.refused.items() if code is _UNKNOWN]
        self._lacked_since = {name: before.get(name, now) for name in lacked}
        gone = {name for name in lacked if self._lacked_since[name] < now} - interest.names
        topics = [metadata.topics.get(name) for name in sorted(interest.wanted(metadata).topics)]
        known = [TopicPartition(t.name, each.index) for t in topics if t for each in t.partitions]
        left = {where.topic for where in self.positions if interest.includes(where.topic)} - gone
        kept = [where for where in self.positions if where.topic in left]
        return dict.fromkeys([*kept, *known])

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Uuid]:
        """Return the id of the topic that each partition was read from, or ZERO_UUID if unknown. A
        partition without an id of its own was assigned while its topic was away: it gets the id of
        the other partitions, not that of a topic that took over the name."""
        positions = self.positions.values()
        known = {name: topic.topic_id for name, topic in self.metadata.topics.items()}
        own_ids = ((each.where.topic, each.topic_id) for each in positions)
        known |= {name: each for name, each in own_ids if each != ZERO_UUID}
        found = {}
        for where in partitions:
            position = self.positions.get(where)
            own = ZERO_UUID if position is None else position.topic_id
            found[where] = known.get(where.topic, ZERO_UUID) if own == ZERO_UUID else own
        return found

    def given_ids(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Uuid]:
        """Return the topic ids that the user's offsets belong to, also for partitions that were
        taken away. If a topic was created again, this is the old topic until a record of the new
        one is returned."""
        wanted = list(partitions)
        found = self.topic_ids(wanted)
        for where in wanted:
            position, former = self.positions.get(where), self.taken_away.get(where)
            own = ZERO_UUID if former is None else former.topic_id
            if position is not None:
                self._settle(position)
                own = position.identity.given_id
            if own != ZERO_UUID:
                found[where] = own
        return found

    def on_seek(self, wanted: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Read on at these offsets, each with the epoch of the record before it: everywhere, or
        nowhere if one of the partitions is not assigned."""
        for position in [self.require(where) for where in wanted]:
            position.sought(*wanted[position.where])
        self._drop(wanted.keys())

    def on_pause(self, partitions: Iterable[TopicPartition], *, is_paused: bool) -> None:
        """Pause or resume these partitions: all, or none if one of them is not assigned."""
        for each in [self.require(where) for where in partitions]:
            each.is_paused = is_paused
            (self.progress.paused.add if is_paused else self.progress.paused.discard)(each.where)
        if is_paused:
            self.progress.pause(self.progress.paused)

    # What there is to do

    def ready(self, now: float) -> ConsumerReady:
        self.is_overdue = False
        metadata, fetch_bytes = self.metadata, self.policy.fetch_bytes
        waiting: dict[PositionState, list[Position]] = {}
        wanted: dict[int, list[Position]] = {}
        full, awaited = set[int](), set[int]()
        buffered, has_some = 0, False
        for each in self.positions.values():
            known = metadata.partition(each.where)
            is_led = known is not None and known.leader in metadata.brokers
            if known is not None:
                each.on_leader(known, is_alive=is_led)
            buffered += each.buffered_bytes
            state, is_full = each.state, each.buffered_bytes >= fetch_bytes
            if state is not PositionState.READING and now >= each.not_before:
                waiting.setdefault(state, []).append(each)
            if each.is_paused:
                continue
            has_some = has_some or bool(each.buffered and self.is_chosen(each.where))
            if is_full:
                full.add(each.source(metadata, now))
            elif state is PositionState.READING and now >= each.not_before:
                wanted.setdefault(each.source(metadata, now), []).append(each)
            if known is not None and is_led and state in _LOOKED_UP:
                awaited.add(known.leader)
        look_ups = self._look_ups(waiting, now)
        fetches: list[Fetch] = []
        if not (has_some and buffered >= self.fetches.memory_bytes):
            self._on_not_led(wanted.pop(NO_LEADER, ()), now)
            fetches = self.fetches.to_send(wanted, full, awaited, buffered)
        return self._ready(look_ups, fetches, now)

    def _ready(self, look_ups: list[LookUp], fetches: list[Fetch], now: float) -> ConsumerReady:
        """Add what holds for all positions, after the decisions about each."""
        self._notices += lasting_troubles(self.positions.values(), now)
        notices, self._notices[:] = list(self._notices), []
        self.missed += sum(each.context.get(MISSED, 0) for each in notices)
        is_stale, lacks_leaders = self._is_stale, self._lacks_leaders
        self._is_stale = self._lacks_leaders = False
        wakes = [each.not_before for each in self.positions.values() if each.not_before > now]
        wakes += [] if self.released_at in (None, math.inf) else [self.released_at]
        failed = (each for each in self.positions.values() if each.state is PositionState.FAILED)
        has_failed = any(self.is_chosen(each.where) for each in failed)
        wake = max(min(wakes), now + _SHORTEST_WAIT_S) if wakes else None
        return ConsumerReady(look_ups, fetches, is_stale, lacks_leaders, notices, has_failed, wake)

    # Looking positions up

    def _look_ups(
        self, waiting: Mapping[PositionState, list[Position]], now: float
    ) -> list[LookUp]:
        self.released_at = None
        found: list[LookUp] = []
        for each in waiting.get(PositionState.GONE, ()):
            reason = "the topic of that name is not the one that the group has given"
            error = KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, reason, **each.where._asdict())
            each.in_trouble(error, now)
            each.put_off(now)
            self._is_stale = True
        committed = waiting.get(PositionState.COMMITTED, ()) if self._has_group else ()
        if committed:
            # Not of an unknown topic: its id must be known before its committed offset is looked
            # up. 1. The topic is deleted. 2. Its committed offset is still found. 3. Another topic
            # has the name now, and would be read and committed from that offset.
            led = [each for some in self._led(committed, now).values() for each in some]
            held = {each.where: self.progress.held_until(each.where) for each in led}
            until = [each for each in held.values() if each > now]
            self.released_at = min(until, default=None)
            self._look(found, NO_LEADER, [each for each in led if held[each.where] <= now])
        unknown = waiting.get(PositionState.UNKNOWN, ())
        for each in unknown:
            if each.look_up.is_none:
                reason = "the partition has no position, and auto.offset.reset is none: seek first"
                facts = {**each.where._asdict(), "setting": "auto.offset.reset"}
                each.fail(KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, reason, **facts))
        validating = waiting.get(PositionState.VALIDATING, ())
        behind = {each for each in validating if each.waits_for_newer(self.metadata, now)}
        self._is_stale |= bool(behind)
        for some in (
            [each for each in unknown if each.state is PositionState.UNKNOWN],
            [each for each in validating if each not in behind],
        ):
            for leader, chosen in self._led(some, now).items():
                self._look(found, leader, chosen)
        return found

    def _led(self, waiting: Iterable[Position], now: float) -> dict[int, list[Position]]:
        """Group the positions by leader. Put off those without one."""
        metadata = self.metadata
        found: dict[int, list[Position]] = {}
        for each in waiting:
            topic, leader = each.where.topic, metadata.leader_of(each.where)
            if leader in metadata.brokers:
                found.setdefault(leader, []).append(each)
                continue
            is_heard_of = topic in metadata.topics or topic in metadata.refused
            why = metadata.why_not_led(each.where) if is_heard_of else self.blind_for
            each.on_not_led(why, now)
            self._lacks_leaders = True
        return found

    def _look(self, found: list[LookUp], leader: int, chosen: list[Position]) -> None:
        if chosen and (chosen[0].state, leader) not in self._looking:
            self._looking.add((chosen[0].state, leader))
            requested = [each.requested() for each in chosen]
            found.append(LookUp(chosen[0].state, leader, requested))

    def on_looked_up(
        self, look_up: LookUp, answers: Mapping[TopicPartition, Answer] | KafkaError, now: float
    ) -> None:
        """Apply the answers of a look-up, by partition, or that there was none."""
        self.on_look_up_ended(look_up)
        # No other request may find out that the partition has another leader now.
        self._is_stale |= isinstance(answers, KafkaError)
        for each in look_up.positions:
            answer = answers if isinstance(answers, KafkaError) else answers.get(each.where)
            position = self.current(each)
            if isinstance(answer, KafkaError):
                self._note_error(answer)
                if position is not None:
                    position.on_look_up_failed(answer, now)
            elif position is None:
                continue
            elif isinstance(answer, EpochEnd):
                self._settle(position)
                position.on_validated(answer.end_offset, answer.epoch)
            elif isinstance(answer, FoundOffset):
                position.on_found(max(0, answer.offset), answer.leader_epoch)
            elif answer is None:
                position.on_committed(None, -1)
            else:
                position.on_committed(answer.offset, answer.leader_epoch)

    def on_look_up_ended(self, look_up: LookUp) -> None:
        """A look-up was answered or cut off: another one may begin."""
        self._looking.discard((look_up.state, look_up.leader))

    # Fetching

    def _on_not_led(self, positions: Iterable[Position], now: float) -> None:
        """Put off positions without a broker to fetch from. Fail a partition that does not exist,
        instead of waiting for it silently."""
        for each in positions:
            self._is_stale = True
            each.in_trouble(self.metadata.why_not_led(each.where), now)
            each.put_off(now)
            each.waits_for_leader = True
            topic, refused = each.where.topic, self.metadata.refused.get(each.where.topic)
            if topic in self.metadata.topics or (refused is not None and not refused.retriable):
                try:
                    self.metadata.check(each.where)
                except KafkaError as error:
                    each.fail(error)

    def on_unreachable(self, node_id: int, error: KafkaError, now: float) -> None:
        """No connection can be made."""
        self._is_stale = True
        for each in self.positions.values():
            if each.source(self.metadata, now) == node_id:
                each.in_trouble(error, now)
            if each.replica == node_id:
                each.replica = NO_LEADER

    def on_fetched(self, fetch: Fetch, answer: FetchResponse | KafkaError, now: float) -> None:
        """Apply the response to each requested partition, or that there was none."""
        self.fetches.on_answered(fetch, is_lost=isinstance(answer, KafkaError))
        if not isinstance(answer, KafkaError):
            if not answer.error_code:
                fetch.session.answered(answer.session_id)
                self._on_partitions(fetch, answer, now)
                return
            fetch.session.end()
            if answer.error_code in SESSION_ERRORS:
                self._is_stale |= answer.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
                return
            answer = KafkaError(answer.error_code, api="Fetch")
        self._note_error(answer)
        for each in fetch.requested:
            self._refuse(each, answer, now)

    def _on_partitions(self, fetch: Fetch, answer: FetchResponse, now: float) -> None:
        """Apply a response. In a session it names only partitions with news."""
        found = partitions_of(answer, self.metadata)
        nodes = {each.node_id: Address(each.host, each.port) for each in answer.node_endpoints}
        for each in fetch.requested:
            data = found.get(each.where)
            if data is None and not fetch.session.names_all:
                continue
            if data is not None and not data.error_code:
                position = self.current(each)
                if position is not None:
                    position.on_data(data, now)
            else:
                self._on_partition_refused(each, data, nodes, now)
        has_data = any(each.records for each in found.values())
        self.fetches.on_data(fetch.node_id, has_data=has_data)

    def _on_partition_refused(
        self,
        each: RequestedPosition,
        data: PartitionData | None,
        nodes: Mapping[int, Address],
        now: float,
    ) -> None:
        code = ErrorCode.UNKNOWN_TOPIC_ID if data is None else data.error_code
        error = error_from("Fetch", code, **each.where._asdict())
        leader = None if data is None else data.current_leader
        if leader is None or not self.metadata.moved(
            each.where, leader.leader_id, leader.leader_epoch, nodes.get(leader.leader_id)
        ):
            self._note_error(error)
        self._refuse(each, error, now)

    def _refuse(self, each: RequestedPosition, error: KafkaError, now: float) -> None:
        position = self.current(each)
        if position is not None:
            self._settle(position)
            position.on_refused(error, now)

    def _note_error(self, error: KafkaError) -> None:
        self._is_stale |= error.code.refreshes_metadata

    def on_emptied(self, *, makes_room: bool) -> None:
        """Records were taken: there may be room again."""
        self.fetches.had_nothing.clear()
        self.is_overdue |= makes_room

    # Troubles

    def troubles(self, of_group: KafkaError | None) -> dict[TopicPartition, KafkaError]:
        """Return the errors that keep partitions from being read; `of_group` is the group's."""
        own = {at.where: at.trouble for at in self.positions.values() if at.trouble is not None}
        known = self.metadata.refused.keys() | {each.topic for each in self.positions}
        unheard = unreachable(self.interest.names - known, self.blind_for or of_group)
        return own | self._missing.troubles | unheard

    # Records out

    def is_chosen(self, where: TopicPartition) -> bool:
        """Whether the running poll may return records of this partition."""
        return self.chosen is None or where in self.chosen

    def take(self, count_max: int) -> list[PartitionRecords]:
        """Return up to `count_max` records, from the (`chosen`) partitions in turn. Raise the error
        of a failed partition if there is nothing else, or if the take before passed over it: a
        partition that always has more must not hide the error."""
        return self._take(count_max, FetchedRecords.take, lambda part: len(part.records))

    def take_columns(self, count_max: int) -> list[PartitionColumns]:
        """Return the same as columns, of whole batches: the last one may exceed `count_max`."""
        return self._take(count_max, FetchedRecords.take_columns, len)

    def _take(self, count_max: int, take: Take[S], size: Callable[[S], int]) -> list[S]:
        if self._has_met_failed:
            self._raise_error()
        found: list[S] = []
        served = []
        for each in self.positions.values():
            if count_max <= 0:
                break
            if each.state is PositionState.FAILED and self.is_chosen(each.where):
                self._has_met_failed = True
            is_given = each.buffered and not (each.is_paused or each.is_in_doubt)
            if not (is_given and self.is_chosen(each.where)):
                continue
            served.append(each.where)
            while each.buffered and count_max > 0:
                before = each.buffered_bytes
                part = each.take(take, count_max)
                if part is not None:
                    found.append(part)
                    count_max -= size(part)
                elif each.state is PositionState.FAILED:
                    self._has_met_failed = True
                    break
                else:
                    topic, emptied = each.where.topic, before - each.buffered_bytes
                    self.emptied[topic] = self.emptied.get(topic, 0) + emptied
        for where in served:  # the next take begins with another partition
            self.positions[where] = self.positions.pop(where)
        if not found:
            self._raise_error()
        return found

    def _raise_error(self) -> None:
        self._has_met_failed = False
        for where, each in self.positions.items():
            if each.state is PositionState.FAILED and self.is_chosen(where):
                error = each.take_error()
                if error is not None:
                    self.positions[where] = self.positions.pop(
                        where
                    )  # the next error is another one's
                    raise error
