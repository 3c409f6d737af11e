"""Share groups as a kind of group: epochs, assignment, initialization, replay, other protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.coordinator.group.consumer.assignors.assignor import MemberSpec
from moldau.broker.coordinator.group.contract import TopicFacts
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.group.share.assignor import assign
from moldau.broker.coordinator.group.share.group import ShareGroup
from moldau.broker.coordinator.group.share.initialization import (
    InitializeStates,
    on_initialized,
    on_refused,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import Uuid
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.broker.coordinator.table import HOUR_MS, Table

GROUP = "mailer"
TOPIC_ID = bytes(15) + b"\x07"


class Topics:
    """Satisfies `contract.Cluster`."""

    def __init__(self) -> None:
        self.version = 0
        self.known: dict[str, TopicFacts] = {}

    def by_name(self, name: str) -> TopicFacts | None:
        return self.known.get(name)

    def by_id(self, topic_id: Uuid) -> TopicFacts | None:
        return next((each for each in self.known.values() if each.topic_id == topic_id), None)

    def names(self) -> Iterable[str]:
        return self.known


class Shares(Table):
    """A table with one topic of two partitions, that share groups read."""

    def __init__(self, **named: object) -> None:
        self.topics = Topics()
        self.topics.known["orders"] = TopicFacts("orders", TOPIC_ID, ((), ()))
        self.wanted: list[InitializeStates] = []
        super().__init__(**named)

    def _empty(self) -> Groups:
        groups = super()._empty()
        cast(Any, groups.services).cluster = self.topics
        return groups

    def heartbeat(self, member: str, epoch: int, *topics: str, group: str = GROUP) -> Any:
        message = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=list(topics) or None,
        )
        self.heard.clear()
        outcome = self.groups.on_request(message, self.context(), "beat", self.now_ms)
        self.wanted += [cast(InitializeStates, each) for each in outcome.effects]
        self.do(outcome)
        return self.heard["beat"]

    def initialized(self) -> None:
        effect = self.wanted.pop()
        self.do(on_initialized(self.groups, effect.group_id, effect.partitions))

    def group(self) -> ShareGroup:
        found = self.groups.get(GROUP)
        assert isinstance(found, ShareGroup)
        return found


def assigned(answer: Any) -> list[int]:
    return [each for topic in answer.assignment.topic_partitions for each in topic.partitions]


def test_a_group_without_members_stays_until_it_is_deleted() -> None:
    """What its queue still has to do is not forgotten while no worker runs."""
    at = Shares()
    assert at.groups.settle(0) is None
    at.heartbeat("a", 0, "orders")
    at.initialized()
    at.heartbeat("a", -1)
    written = len(at.log)
    at.pass_ms(30 * 24 * HOUR_MS)
    assert at.group().is_empty
    assert len(at.log) == written
    assert at.reloaded().get(GROUP) is not None


def code(of: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        of()
    return caught.value.code


def ready() -> Shares:
    """A group with one member that reads both partitions."""
    at = Shares()
    first = at.heartbeat("a", 0, "orders")
    assert (first.member_epoch, assigned(first)) == (2, [])
    at.initialized()
    at.now_ms += 1000
    assert assigned(at.heartbeat("a", 2)) == [0, 1]
    return at


def test_partitions_are_assigned_when_their_states_are_set_up() -> None:
    at = Shares()
    at.heartbeat("a", 0, "orders")
    (effect,) = at.wanted
    assert (effect.state_epoch, effect.partitions) == (2, {TOPIC_ID: frozenset((0, 1))})
    assert at.group().state.initializing == effect.partitions
    at.now_ms += 5000
    assert at.heartbeat("a", 2).assignment is None
    assert len(at.wanted) == 1, "it is asked for once"
    at.initialized()
    answer = at.heartbeat("a", 2)
    assert (answer.member_epoch, assigned(answer)) == (3, [0, 1])
    assert at.group().state.initializing == {}


def test_states_that_are_refused_or_forgotten_are_asked_for_again() -> None:
    at = Shares()
    at.heartbeat("a", 0, "orders")
    effect = at.wanted.pop()
    at.do(on_refused(at.groups, GROUP, effect.partitions))
    at.heartbeat("a", 2)
    assert at.wanted.pop().partitions == effect.partitions
    at.now_ms += 29_000
    at.heartbeat("a", 2)
    assert at.wanted == []
    at.now_ms += 1000
    at.heartbeat("a", 2)
    assert at.wanted.pop().partitions == effect.partitions


def test_new_partitions_get_states_and_are_assigned() -> None:
    at = ready()
    at.topics.known["orders"] = TopicFacts("orders", TOPIC_ID, ((), (), ()))
    for outcome in at.groups.on_topics_changed(["orders"], (), at.now_ms):
        at.do(outcome)
    at.now_ms += 1000
    answer = at.heartbeat("a", 3)
    assert at.wanted[-1].partitions == {TOPIC_ID: frozenset((2,))}
    at.initialized()
    at.now_ms += 1000
    assert assigned(at.heartbeat("a", answer.member_epoch)) == [0, 1, 2]


def test_more_members_than_partitions_share_them() -> None:
    at = ready()
    at.now_ms += 1000
    found = [assigned(at.heartbeat("a", 0, "orders"))]
    for member in ("b", "c", "d"):
        at.now_ms += 1000
        found.append(assigned(at.heartbeat(member, 0, "orders")))
    at.now_ms += 1000
    state = at.group().state
    held = sorted(each for part in state.target.values() for each in part[TOPIC_ID])
    assert held == [0, 0, 1, 1]


def test_a_silent_member_is_removed_and_one_that_leaves_too() -> None:
    at = ready()
    at.pass_ms(44_000)
    assert not at.group().is_empty
    at.pass_ms(2_000)
    assert at.group().is_empty
    assert code(lambda: at.heartbeat("a", 3)) is ErrorCode.UNKNOWN_MEMBER_ID
    at.heartbeat("b", 0, "orders")
    assert at.heartbeat("b", -1).member_epoch == -1
    assert at.group().state_name == "Empty"


def test_the_epoch_before_is_valid_and_others_are_fenced() -> None:
    at = ready()
    assert at.heartbeat("a", 2).member_epoch == 3
    assert code(lambda: at.heartbeat("a", 4)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code(lambda: at.heartbeat("a", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert code(lambda: at.heartbeat("x", 3)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert code(lambda: at.heartbeat("x", 1, group="none")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert code(lambda: at.heartbeat("x", -1, group="none")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_has_a_limit() -> None:
    at = Shares(group_share_max_size=1)
    at.heartbeat("a", 0, "orders")
    assert code(lambda: at.heartbeat("b", 0, "orders")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    at.heartbeat("a", 2)


def test_the_log_gives_the_same_group() -> None:
    at = ready()
    at.now_ms += 1000
    at.heartbeat("b", 0, "orders")
    live = at.group().state
    found = at.reloaded().get(GROUP)
    assert isinstance(found, ShareGroup)
    loaded = found.state
    for name in ("epoch", "metadata_hash", "target_epoch", "members", "target", "initialized"):
        assert getattr(loaded, name) == getattr(live, name), name
    at.now_ms = 50_000
    assert found.next_deadline_ms() is not None


def test_a_deleted_topic_is_forgotten() -> None:
    at = ready()
    del at.topics.known["orders"]
    for outcome in at.groups.on_topics_changed(["orders"], ["orders"], at.now_ms):
        at.do(outcome)
    assert at.group().state.initialized == {}
    at.now_ms += 1000
    assert assigned(at.heartbeat("a", 3)) == []


def test_a_deleted_topic_leaves_an_assignment_at_the_next_computation() -> None:
    at = ready()
    del at.topics.known["orders"]
    for outcome in at.groups.on_topics_changed(["orders"], ["orders"], at.now_ms):
        at.do(outcome)
    for _ in range(3):
        at.now_ms += 300
        answer = at.heartbeat("a", 3)
        assert (answer.member_epoch, answer.assignment) == (3, None), "assigned less than 1 s ago"
    at.now_ms += 300
    answer = at.heartbeat("a", 3)
    assert (answer.member_epoch, assigned(answer)) == (4, [])


def test_a_share_group_is_not_converted_and_converts_none() -> None:
    at = ready()
    at.heartbeat("a", -1)
    consumer = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="c",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    ask = at.groups.on_request
    wrong = code(lambda: ask(consumer, at.context(), "t", at.now_ms))
    assert wrong is ErrorCode.GROUP_ID_NOT_FOUND
    join = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    wrong = code(lambda: ask(join, at.context(), "t", at.now_ms))
    assert wrong is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    at.commit("commit", "classic")
    wrong = code(lambda: at.heartbeat("x", 0, "orders", group="classic"))
    assert wrong is ErrorCode.GROUP_ID_NOT_FOUND
    heard = at.commit("other", GROUP)
    assert isinstance(heard, KafkaError) or heard.topics[0].partitions[0].error_code


topic_ids = st.sampled_from([bytes(15) + bytes((number,)) for number in range(4)])


@given(
    st.dictionaries(
        st.text("abcdef", min_size=1, max_size=2), st.frozensets(topic_ids), max_size=7
    ),
    st.dictionaries(topic_ids, st.frozensets(st.integers(0, 4), min_size=1), max_size=4),
)
def test_each_partition_has_a_reader_and_members_differ_by_little(
    wants: dict[str, frozenset[Uuid]], assignable: dict[Uuid, frozenset[int]]
) -> None:
    members = {member: MemberSpec(topics) for member, topics in wants.items()}
    found = assign(members, assignable)
    again = {member: MemberSpec(wants[member], found[member]) for member in members}
    assert assign(again, assignable) == found, "what is even stays"
    for member, given_ in found.items():
        assert set(given_) <= wants[member]
    for topic_id, partitions in assignable.items():
        readers = [member for member, topics in wants.items() if topic_id in topics]
        if readers:
            held = {each for member in readers for each in found[member].get(topic_id, ())}
            assert held == partitions
    if len(set(wants.values())) == 1:
        counts = [sum(map(len, given_.values())) for given_ in found.values()]
        assert max(counts) - min(counts) <= 1
