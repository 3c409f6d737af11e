"""A consumer in a classic group: how its partitions are assigned and change hands. No IO.

A rebalance begins with a heartbeat's response. Eager: everything is revoked (a change, run by the
next poll), then the member joins. Cooperative (KIP-429), if all assignors support it: the member
joins with what it owns, gives up what the new assignment takes from it, and joins again.

While a change waits for the user, heartbeats continue, as the member is alive. If the user does not
poll for `max.poll.interval.ms`, the member leaves. After a lost membership (UNKNOWN_MEMBER_ID,
ILLEGAL_GENERATION) what was owned is lost, not revoked: it can no longer be committed. The same
holds if the others began a generation without a static member that was silent: the leader saw that
member's last subscription and partitions, and may have assigned to others what it owns by now. What
the next share takes from it is lost, and until that is gone the member commits nothing.

A static member (KIP-345) does not leave, so that it gets its share again under a new member id.
FENCED_INSTANCE_ID means that another member has its name, and it gives up for good. A static leader
that is back makes no new assignment (KIP-814). Partitions may have been added meanwhile, so it
requests once which member has which, and makes all join again if one belongs to no member.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from moldau.client.group.assignors import (
    NO_GENERATION,
    Assignment,
    Assignor,
    Rebalance,
    Share,
    Subscription,
    Topics,
)
from moldau.client.group.classic import ClassicMember, ClassicMemberState, describe
from moldau.client.group.member import (
    FENCED,
    NOBODY,
    Change,
    Identity,
    Kind,
    Member,
    MemberSettings,
    MemberSubscription,
    Ready,
    in_words,
    reassigned,
)
from moldau.client.group.subscription_bytes import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_share,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from moldau.errors import BadData, MoldauError, without_frames
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.link.metadata import TopicPartition
from moldau.protocol.declare import Response
from moldau.protocol.messages.describe_groups import DescribeGroupsResponse
from moldau.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember

if TYPE_CHECKING:
    from random import Random


class ClassicConsumer(Member):
    """One consumer in a classic group."""

    protocol_type: Final = PROTOCOL_TYPE

    def __init__(
        self, terms: MemberSettings, assignors: Sequence[Assignor], random: Random
    ) -> None:
        """Take `assignors` in order of preference; the members agree on one that all have."""
        super().__init__(terms)
        assert assignors, "a member needs an assignor"
        self._group = ClassicMember(self, random)
        self._settled_generation = NO_GENERATION
        """The generation in which it has a share."""
        self._has_missed = False
        """Whether the others began a generation without it since."""
        self._taken = frozenset[TopicPartition]()
        """What it lost by that, before the listener was called: others may have read on."""
        self._assignors = {each.name: each for each in assignors}
        self._is_cooperative = all(Rebalance.COOPERATIVE in each.rebalances for each in assignors)
        self._joined_with = frozenset[str]()
        self._must_join_again = False
        self._members: dict[str, Subscription] = {}
        self._watched = frozenset[str]()
        """As a leader: the topics that any member wants, existing or not."""
        self._shared: Topics = {}
        self._must_compare = False
        """As a static leader that is back: whether to request what all members have."""
        self._is_describing = False
        self._departs = False
        """Whether to leave once what it gives up is committed."""

    @property
    def state(self) -> ClassicMemberState:
        """The state of the member in its group."""
        return self._group.state

    @property
    def generation(self) -> int:
        """The latest generation that it knows."""
        return self._group.generation

    @property
    def identity(self) -> Identity:
        """The identity for commits: none while it is out; before it has a share in a new
        generation, that of the generation before. Else a cooperative member that was removed, and
        let in again without knowing it, could commit another member's partitions. If the next
        generation ended before the member had a share, it took nothing from it: the coordinator
        knows the member in that generation."""
        if NO_GENERATION in (self._settled_generation, self.generation):
            return NOBODY
        waits = self.state is ClassicMemberState.JOINING or (
            self.state is ClassicMemberState.LEAVING and self._is_giving_up
        )
        if waits and not self._has_missed:
            return self._group.identity
        return self._group.identity._replace(epoch=self._settled_generation)

    @property
    def is_out(self) -> bool:
        return self.state is ClassicMemberState.OUT

    @property
    def is_rebalancing(self) -> bool:
        return self._group.is_rebalancing

    @property
    def topics_of_interest(self) -> frozenset[str]:
        """The topics whose changes of partitions the leader must know."""
        return self._watched if self._group.is_leader else frozenset()

    # Calls of the user

    def subscribe(self, wanted: MemberSubscription) -> None:
        """Subscribe to these topics, from the next rebalance on. Without any, leave."""
        assert wanted.pattern is None, "a classic group knows no patterns"
        self.wanted = wanted
        if not wanted:
            self.leave(is_closing=False)
        elif self.state is ClassicMemberState.STABLE and wanted.topics != self._joined_with:
            self._group.join_again("the subscription has changed")

    def on_poll(self, now: float) -> None:
        """Handle a poll of the user: join if it is time to."""
        super().on_poll(now)
        if self.state is ClassicMemberState.OUT and self.wanted and self._error is None:
            self._waits_no_more = False
            self._forget()
            self._group.begin()

    def enforce_rebalance(self, reason: str) -> bool:
        """Make all members join again, unless a rebalance is running already."""
        if self.state is ClassicMemberState.STABLE:
            self._group.join_again(reason)
        return True

    def leave(self, *, is_closing: bool) -> None:
        """Leave the group. When closing, the shell takes care of what is owned; else it is revoked,
        and committed. For that, a generation that has begun is finished first."""
        self._give_everything_up(is_closing=is_closing)
        self._departs = not is_closing
        if is_closing:
            self._depart("the consumer is closed")
        else:
            self._depart_if_free()

    def _depart_if_free(self) -> None:
        if self._departs and not self._stays_until_given_up:
            self._depart("nothing is subscribed to")

    @property
    def _stays_until_given_up(self) -> bool:
        """Whether it is about to leave but must not send that yet. In the middle of a generation no
        commit is allowed: it has to end. And a static member is none any more once it has left."""
        has_to_stay = self._is_under_way or not self._group.sends_leave
        return self._departs and self._is_giving_up and has_to_stay

    @property
    def _is_under_way(self) -> bool:
        """Whether it will get a share without its user's help."""
        is_joining = self.state is ClassicMemberState.JOINING and self._group.has_asked_to_join
        return is_joining or self.state in (
            ClassicMemberState.ASSIGNING,
            ClassicMemberState.SYNCING,
        )

    def _depart(self, reason: str) -> None:
        self._departs = False
        self._group.depart(reason)

    def may_leave(self) -> bool:
        """Return whether all revoked partitions are committed."""
        return not self._is_giving_up

    # Called by the shell

    def ready(self, now: float) -> Ready:
        if self._is_describing or self._group.is_waiting:
            return Ready()
        if self._waits_for_user and now >= self._poll_deadline():
            self._expire()
            return self.ready(now)
        if self.state is ClassicMemberState.ASSIGNING:
            return Ready(topics=self._watched)
        if (
            self._must_compare
            and self.state is ClassicMemberState.STABLE
            and not self._group.is_put_off(now)
        ):
            self._is_describing = True
            return Ready(describe(self.terms))
        ready = self._group.ready(now)
        if ready.ask is not None or not self._waits_for_user:
            return ready
        wakes = (ready.wake, self._poll_deadline())
        return Ready(wake=min(each for each in wakes if each is not None))

    @property
    def _waits_for_user(self) -> bool:
        return self.state is not ClassicMemberState.LEAVING or self._is_giving_up

    def _expire(self) -> None:
        super()._expire()
        self._depart("max.poll.interval.ms is over")

    def offer(self) -> Mapping[str, bytes] | None:
        """Return its subscription and owned partitions, once its user has given up the rest."""
        if self._is_held or self._prepares():
            return None
        self._joined_with = self.wanted.topics
        topics = tuple(sorted(self._joined_with))
        return {
            name: encode_subscription(
                Subscription(
                    topics,
                    user_data=each.user_data(self._joined_with),
                    owned=self.owned,
                    generation=self._settled_generation,
                    rack=self.terms.rack,
                )
            )
            for name, each in self._assignors.items()
        }

    def _prepares(self) -> bool:
        """Whether the user has to give something up before the member may join."""
        if self._is_changing:
            return True
        given_up = self.owned
        if self._is_cooperative:
            given_up = tuple(each for each in given_up if each.topic not in self.wanted.topics)
        if given_up:
            kept = tuple(each for each in self.owned if each not in given_up)
            self._plan(Change(Kind.REVOKED, given_up, kept))
        return bool(given_up)

    # Responses of the coordinator

    def on_answer(self, answer: Response | KafkaError, now: float) -> None:
        if self._is_describing:
            self._is_describing = False
            self._on_described(answer, now)
        else:
            self._group.on_answer(answer, now)
        self._depart_if_free()

    def on_joined(self, answer: JoinGroupResponse, *, has_missed: bool) -> bool:
        """Read all subscriptions as a leader, which needs metadata even without assigning."""
        self._must_join_again = self._must_compare = False
        if self._settled_generation != NO_GENERATION:
            self._has_missed |= has_missed
        if self._group.protocol_name not in self._assignors:
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            raise KafkaError(code, "the group shares partitions in a way unknown here")
        if not self._group.is_leader:
            return False
        self._members = dict(map(self._read, answer.members))
        self._watched = frozenset(t for each in self._members.values() for t in each.topics)
        self._must_compare = answer.skip_assignment
        self._shared = {}
        return True

    def _read(self, member: JoinGroupResponseMember) -> tuple[str, Subscription]:
        try:
            wants = decode_subscription(member.metadata, member.group_instance_id)
        except BadData as error:
            told = {"group": self.terms.group_id, "member": member.member_id}
            told["assignor"] = self._group.protocol_name
            reason = "the leader cannot read what another member subscribes to: " + error.reason
            raise type(error)(reason, **{**error.context, **told}) from error
        return member.member_id, wants

    def on_topics(self, topics: Topics, now: float) -> None:
        """Assign the partitions, as the leader: of all existing topics that any member wants."""
        if self.state is not ClassicMemberState.ASSIGNING:
            return
        self._shared = topics
        shares: Assignment = {}
        if not self._must_compare:
            try:
                shares = self._assignors[self._group.protocol_name].assign(topics, self._members)
            except Exception as error:
                if not (self._departs or self._is_held):
                    raise
                self._cannot_share(error)
                return
        self._members = {}
        self._group.share_out({member: _encoded(each) for member, each in shares.items()})

    def _cannot_share(self, error: Exception) -> None:
        """Leave now, as it was about to anyway: another leader may be able to assign."""
        reason = f"the assignor failed, and the member leaves without having shared: {error!r}"
        facts = {"group": self.terms.group_id, "assignor": self._group.protocol_name}
        self.notices.append(MoldauError(reason, **facts))
        self._group.join_again("partitions could not be shared out")
        self._depart_if_free()

    def on_metadata(self, topics: Topics) -> None:
        """Rebalance, as the leader, if the partitions of an assigned topic have changed."""
        if self.state is ClassicMemberState.STABLE and self._group.is_leader:
            known = {topic: list(self._shared[topic]) for topic in self._shared}
            if known != {topic: list(each) for topic, each in topics.items()}:
                self._group.join_again("the partitions of a topic have changed")

    def on_names(self, names: Mapping[Uuid, str], now: float) -> None:
        """Ignore topic ids: the classic protocol uses names."""

    def _on_described(self, answer: Response | KafkaError, now: float) -> None:
        """Make all join again if there are partitions that no member has."""
        if self.state is not ClassicMemberState.STABLE:
            return
        if isinstance(answer, KafkaError):
            self._must_compare = answer.retriable
            self._group.put_off(now)
            return
        assert isinstance(answer, DescribeGroupsResponse)
        group = answer.groups[0]
        code = ErrorCode(group.error_code)
        if code.retriable:
            self._group.put_off(now)
            return
        self._must_compare = False
        if code:
            return
        try:
            given = {
                each
                for member in group.members
                for each in decode_assignment(member.member_assignment)
            }
        except BadData:
            return  # the leader's assignments have another format
        there = {
            TopicPartition(topic, index)
            for topic, racks in self._shared.items()
            for index in range(len(racks))
        }
        if there - given:
            self._group.join_again("partitions came while the leader was away")

    def on_share(self, assignment: bytes, now: float) -> None:
        """Plan the changes from what is owned to this share."""
        try:
            target = decode_share(assignment)
        except BadData as error:
            self._group.fail(error)
            return
        assignor = self._assignors[self._group.protocol_name]
        assignor.on_assignment(target, self.generation, target.user_data)
        if self._departs:
            if not self._has_missed:
                self._settle()
            return
        giving_up, taking = self._on_the_way_to(target)
        if giving_up is None or not self._has_missed:
            self._settle()
        if giving_up is None:
            self._plan(taking)
        else:
            self._must_join_again = True
            self._plan(giving_up, taking)
        if self.wanted.topics != self._joined_with:
            self._group.join_again("the subscription has changed")

    def _on_the_way_to(self, target: Sequence[TopicPartition]) -> tuple[Change | None, Change]:
        """Return what is given up first (None if nothing), and what is assigned then. What a missed
        generation took is lost, even if this one gives it back before the listener was called."""
        owned = self._owned_soon()
        known = tuple(each for each in owned if each not in self._taken)
        giving_up, taking = reassigned(known, target)
        kept = known if giving_up is None else giving_up.owned
        if self._has_missed and kept != owned:
            lost = tuple(each for each in owned if each not in kept)
            self._taken = frozenset(lost)
            giving_up = Change(Kind.LOST, lost, kept)
        return giving_up, taking

    def _settle(self) -> None:
        """Commit as a member of this generation from now on."""
        self._settled_generation = self.generation
        self._has_missed = False
        self._taken = frozenset()

    def _changed(self, now: float) -> None:
        self._depart_if_free()
        is_losing = any(each.kind is Kind.LOST for each in self._changes)
        if self._has_missed and self.state is ClassicMemberState.STABLE and not is_losing:
            self._settle()
        if self._must_join_again and not self._changes and self.state is ClassicMemberState.STABLE:
            self._group.join_again("partitions were given up")

    # Ends and new beginnings

    def on_rebalance(self) -> None:
        """Drop the changes of the old generation, as the next one decides; but not those of a
        member that is about to leave."""
        if not self._departs:
            self._changes.clear()

    def on_lost(self, error: KafkaError | BadData | None) -> None:
        """Lose everything; the next poll raises the error, if any."""
        self._forget()
        if error is None:
            self._lose(_TAKEN_FOR_DEAD, "session.timeout.ms")
            return
        if isinstance(error, KafkaError):
            error = in_words(error, self.terms, _HINTS)
        self._error = without_frames(error)
        if self._owned_soon():
            self.notices.append(without_frames(error))
        self._lose_everything()

    def on_commit_refused(self, identity: Identity, code: ErrorCode) -> None:
        if identity == self.identity:
            self._group.on_commit_refused(identity, code)

    def may_commit_later(self, identity: Identity, where: TopicPartition) -> bool:
        """Whether a rejected commit came between two generations, and the partition is still the
        member's in the next one, in which it has a share (given up or not) or gets one by itself
        (cooperative)."""
        if identity.member_id != self._group.member_id or not self._has(where):
            return False
        return identity != self.identity or self._goes_on_by_itself

    @property
    def _goes_on_by_itself(self) -> bool:
        """Whether it gets its next share without its user. A change that must run before needs the
        user, and may be waiting for the very commit."""
        if self._departs:
            return self._is_under_way
        if self._is_changing or not self.is_rebalancing:
            return False
        return self._is_under_way or not self._is_held

    def _forget(self) -> None:
        """Forget the membership's state, except what the listener was called with."""
        self._settled_generation = NO_GENERATION
        self._has_missed = self._must_join_again = self._must_compare = False
        self._taken = frozenset()
        self._members = {}
        self._shared = {}
        self._watched = frozenset()


def _encoded(share: Sequence[TopicPartition]) -> bytes:
    return encode_assignment(share, share.user_data if isinstance(share, Share) else None)


_TAKEN_FOR_DEAD: Final = (
    "the coordinator took this member for dead: others may have its partitions, and what was not "
    "committed is read again. Nothing was heard of it for session.timeout.ms (the event loop must "
    "not be blocked that long), or an administrator removed it"
)
_HINTS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "no assignor is common to all members: give this one "
    "another one in partition.assignment.strategy, or the group has another protocol type",
    ErrorCode.INVALID_SESSION_TIMEOUT: "session.timeout.ms is outside of what the broker allows, "
    "see group.min.session.timeout.ms and group.max.session.timeout.ms there",
    ErrorCode.FENCED_INSTANCE_ID: FENCED,
    ErrorCode.GROUP_MAX_SIZE_REACHED: "the group has as many members as group.max.size allows",
    ErrorCode.INVALID_GROUP_ID: "group.id must not be empty",
}
