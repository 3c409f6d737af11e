"""The state of a classic group: its members, its waiting requests, and its generation.

Invariants (`check` asserts them):
* The leader is a member. A generation with members has a leader.
* A static id belongs to one member, and that member has it.
* A member waits in a join only in PreparingRebalance, and in a sync only in CompletingRebalance. So
  no member waits for an answer that will not come.
* The generation only grows.
* Stored counts (joining members, members that support each protocol) equal a recount.
* A session runs only for a member, or for a member id that was handed out for a join.

All of this is volatile: the log holds a generation only after its leader has synced. So after a
failover the group has the state of the last sync. Members with a newer generation are rejected and
join again.

Deadlines by key, for deadlines that are postponed far more often than they are met.

A heartbeat postpones the deadline of a session: that is one write into a dict. The heap keeps the
entry for the earlier time. When that time comes, the entry is moved to the current deadline. So a
heap entry is never later than its deadline, and each key has at most one live entry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import field, fields
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from moldau.broker.coordinator.group.classic.member import Member, MemberProtocol
from moldau.broker.coordinator.group.classic.protocols import select_protocol, subscribed_topics
from moldau.broker.coordinator.group.classic.states import TRANSITIONS, ClassicGroupState
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Collection

K = TypeVar("K", bound=Hashable)

_SLACK = 64


class Deadlines(Generic[K]):
    """Deadlines by key. Those of the same time are returned in the order of queueing."""

    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        self._queued: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._sequence = 0
        self.has_news = False
        """Whether the earliest deadline may be nearer than the last result of `next_ms`."""

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def __len__(self) -> int:
        return len(self._due)

    def __iter__(self) -> Iterator[K]:
        return iter(self._due)

    def set(self, key: K, at_ms: int) -> None:
        """Set or replace the deadline of `key`."""
        self._due[key] = at_ms
        queued = self._queued.get(key)
        if queued is None or at_ms < queued[0]:
            self._queue(key, at_ms)

    def cancel(self, key: K) -> None:
        """Cancel the deadline of `key`, if it has one."""
        if self._due.pop(key, None) is not None:
            del self._queued[key]

    def clear(self) -> None:
        """Cancel all deadlines."""
        self._due.clear()
        self._queued.clear()
        self._heap.clear()

    def next_ms(self) -> int | None:
        """Return a time not later than the earliest deadline; None if there is none."""
        self.has_news = False
        heap = self._heap
        while heap and not self._is_live(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def pop_due(self, now_ms: int) -> K | None:
        """Remove one deadline that is due and return its key. Return None if no other is due at
        `now_ms`; then `next_ms` is later."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            entry = heappop(heap)
            if not self._is_live(entry):
                continue
            key = entry[2]
            del self._queued[key]
            due = self._due[key]
            if due <= now_ms:
                del self._due[key]
                return key
            self._queue(key, due)
        return None

    def _is_live(self, entry: tuple[int, int, K]) -> bool:
        return self._queued.get(entry[2]) == entry[:2]

    def _queue(self, key: K, at_ms: int) -> None:
        self.has_news = True
        self._sequence += 1
        self._queued[key] = (at_ms, self._sequence)
        heappush(self._heap, (at_ms, self._sequence, key))
        if len(self._heap) > 2 * len(self._queued) + _SLACK:
            self._compact()

    def _compact(self) -> None:
        """Drop the entries of keys that were cancelled or moved to an earlier time. So churn cannot
        grow the heap beyond a multiple of its live entries."""
        self._heap = [entry for entry in self._heap if self._is_live(entry)]
        heapify(self._heap)


class Timer(Enum):
    """The timers of a group as a whole."""

    JOIN = "join"
    SYNC = "sync"


DeadlineKey: TypeAlias = "Timer | str"
"""A timer of the group, or a member id for the session of that member."""


@dataclass(slots=True)
class InitialDelay:
    """The delay of the first generation of an empty group. The delay starts again when new members
    join, for at most `left_ms` more in total."""

    delay_ms: int
    left_ms: int
    has_newcomer: bool = False


@dataclass(slots=True)
class Membership:
    """One group. Only its methods and the modules of the event families change it."""

    group_id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    state_since_ms: int | None = None
    """Wall time; None if an old record did not have it."""
    generation_id: int = 0
    protocol_type: str = ""
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_ids: dict[str, str] = field(default_factory=dict)
    pending_joins: set[str] = field(default_factory=set)
    """KIP-394: member ids that were handed out and have not joined yet."""
    pending_syncs: set[str] = field(default_factory=set)
    """Members of this generation that have not requested their assignment yet."""
    topics: frozenset[str] | None = None
    initial_delay: InitialDelay | None = None
    """Set during the rebalance that follows Empty."""
    deadlines: Deadlines[DeadlineKey] = field(default_factory=Deadlines)
    joining_count: int = 0
    supported: Counter[str] = field(default_factory=Counter)

    # Members.

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member, perhaps with a ticket that waits for the next generation."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type, "the group speaks another protocol"
        if member.instance_id is not None:
            assert member.instance_id not in self.static_ids, "replace the static member instead"
            self.static_ids[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.supported.update(member.protocol_names)
        self.joining_count += member.is_joining
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member or a pending member id, and its session. The caller answers the tickets
        of the returned member."""
        self.deadlines.cancel(member_id)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._uncount(member)
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace(self, old: Member, new: Member) -> None:
        """Replace a static member that came back with a new id.
        The caller answers the tickets of `old`."""
        assert old.instance_id is not None
        assert old.instance_id == new.instance_id
        del self.members[old.member_id]
        self._uncount(old)
        self.deadlines.cancel(old.member_id)
        self.pending_syncs.discard(old.member_id)
        self.static_ids[old.instance_id] = new.member_id
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id
        self.members[new.member_id] = new
        self.supported.update(new.protocol_names)
        self.joining_count += new.is_joining

    def renew(self, member: Member, protocols: tuple[MemberProtocol, ...]) -> None:
        """Replace the protocols that a member supports."""
        self._forget_protocols(member)
        member.protocols = protocols
        self.supported.update(member.protocol_names)

    def set_join_ticket(self, member: Member, ticket: object | None) -> object | None:
        """Park a ticket with a member until the next generation. Return the previous ticket, which
        the caller must answer."""
        before = member.take_join()
        member.join_ticket = ticket
        self.joining_count += (ticket is not None) - (before is not None)
        return before

    def check_member(self, member_id: str, instance_id: str | None) -> Member:
        """Return the member of this id. Raise KafkaError if it is unknown, or if another member has
        taken over its static id."""
        if instance_id is not None:
            holder = self.static_ids.get(instance_id)
            if holder is not None and holder != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
            if holder is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    # The group as a whole.

    @property
    def have_all_joined(self) -> bool:
        return self.joining_count == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    def supports(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member with these protocols can join the current members."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return protocol_type == self.protocol_type and any(
            self.supported[name] == len(self.members) for name in names
        )

    def restart_session(self, member: Member, now_ms: int) -> None:
        """Restart the session: a request shows that the member is alive."""
        self.deadlines.set(member.member_id, now_ms + member.session_timeout_ms)

    # State and generation.

    def enter(self, state: ClassicGroupState, wall_ms: int) -> None:
        """Change to this state. Assert that the transition is allowed."""
        assert state in TRANSITIONS[self.state], f"{self.state} cannot become {state}"
        self.state = state
        self.state_since_ms = wall_ms

    def elect_joined_leader(self) -> bool:
        """Make a joined member the leader, unless the leader has joined. False if none has."""
        leader = None if self.leader_id is None else self.members.get(self.leader_id)
        if leader is not None and leader.is_joining:
            return True
        for member in self.members.values():
            if member.is_joining:
                self.leader_id = member.member_id
                return True
        return False

    def begin_generation(self, wall_ms: int) -> None:
        """Begin the next generation with the remaining members. Without any it is Empty."""
        self.generation_id += 1
        self.pending_syncs.clear()
        if self.members:
            self.protocol_name = select_protocol(self.members.values())
            self.enter(ClassicGroupState.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol_name = None
            self.enter(ClassicGroupState.EMPTY, wall_ms)
        self.recount_topics()

    def begin_anew(self) -> None:
        """Reset to a new, empty group that no member has ever joined.
        The caller answers the tickets."""
        fresh = Membership(self.group_id, state_since_ms=self.state_since_ms)
        for each in fields(self):
            setattr(self, each.name, getattr(fresh, each.name))

    def recount_topics(self) -> None:
        """Compute the topics that the members of this generation subscribe to."""
        self.topics = subscribed_topics(
            self.protocol_type, self.protocol_name, self.members.values()
        )

    def check(self) -> None:
        """Assert the invariants from a recount; for tests."""
        joining = [each for each in self.members.values() if each.is_joining]
        syncing = [each for each in self.members.values() if each.sync_ticket is not None]
        known = Counter(name for each in self.members.values() for name in each.protocol_names)
        assert self.joining_count == len(joining)
        assert self.supported == known
        assert (self.leader_id in self.members) if self.members else self.leader_id is None
        assert {
            each.instance_id: each.member_id for each in self.members.values() if each.is_static
        } == self.static_ids
        assert self.pending_joins.isdisjoint(self.members)
        assert self.pending_syncs <= self.members.keys()
        assert not joining or self.state is ClassicGroupState.PREPARING_REBALANCE
        assert not syncing or self.state is ClassicGroupState.COMPLETING_REBALANCE
        if self.state not in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
            assert not self.pending_syncs
            assert Timer.SYNC not in self.deadlines
        assert bool(self.members) or self.state in (
            ClassicGroupState.EMPTY,
            ClassicGroupState.PREPARING_REBALANCE,
        )
        assert not self.members or self.state is not ClassicGroupState.EMPTY
        assert (self.initial_delay is None) or self.state is ClassicGroupState.PREPARING_REBALANCE
        assert (Timer.JOIN in self.deadlines) == (
            self.state is ClassicGroupState.PREPARING_REBALANCE
        )
        sessions = {each for each in self.deadlines if isinstance(each, str)}
        assert sessions <= self.members.keys() | self.pending_joins

    def _uncount(self, member: Member) -> None:
        self._forget_protocols(member)
        self.joining_count -= member.is_joining

    def _forget_protocols(self, member: Member) -> None:
        for name in member.protocol_names:
            self.supported[name] -= 1
            if not self.supported[name]:
                del self.supported[name]
