"""The core of a streams group's member: tasks in, partitions and reports out."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from moldau.client.group.heartbeats import HeartbeatState
from moldau.client.group.member import (
    NOBODY,
    Change,
    Identity,
    Kind,
    MemberSettings,
    MemberSubscription,
)
from moldau.client.group.streams import (
    NO_TASKS,
    GroupTask,
    StreamsMember,
    StreamsSettings,
    TaskPosition,
)
from moldau.client.group.topology import (
    SubtopologyDescription,
    TopicDescription,
    TopologyDescription,
)
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.metadata import TopicPartition
from moldau.protocol.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
)
from moldau.protocol.messages.streams_group_heartbeat import TopicPartition as WirePartitions
from moldau.runtime.backoff import Backoff

TERMS = MemberSettings("app", poll_interval_s=60.0, backoff=Backoff(50, 500))
TOPOLOGY = TopologyDescription(
    (
        SubtopologyDescription("0", ("lines",), repartition_sinks=("app-r",)),
        SubtopologyDescription(
            "1",
            ("rates",),
            (TopicDescription("app-r", 4, (("cleanup.policy", "delete"),)),),
            changelogs=(TopicDescription("app-s-changelog"),),
            copartitioned=(frozenset(("rates", "app-r")),),
        ),
    )
)
COUNTS = {"lines": 2, "rates": 2, "app-r": 4}


class Played:
    """A member whose coordinator is the test. Its user polls at once."""

    def __init__(
        self, endpoint: tuple[str, int] | None = None, instance_id: str | None = None
    ) -> None:
        process = StreamsSettings("process", endpoint)
        terms = replace(TERMS, instance_id=instance_id)
        self.member = StreamsMember(terms, "m", random.Random(1), lambda: TOPOLOGY, process)
        self.now = 1.0
        self.changes: list[Change] = []
        self.member.subscribe(MemberSubscription(frozenset(COUNTS)))
        self.poll()

    def poll(self) -> None:
        self.member.on_poll(self.now)
        while (change := self.member.begin_change()) is not None:
            self.changes.append(change)
            self.member.end_change(self.now)

    def request(self) -> StreamsGroupHeartbeatRequest:
        """The next request, with metadata given as they are required."""
        for _ in range(3):
            ready = self.member.ready(self.now)
            if ready.ask is not None:
                assert isinstance(ready.ask.request, StreamsGroupHeartbeatRequest)
                return ready.ask.request
            assert ready.topics is not None
            view = {name: [frozenset[str]()] * COUNTS[name] for name in ready.topics}
            self.member.on_topics(view, self.now)
            self.poll()
        raise AssertionError("no request")

    def answer(self, epoch: int, *, tasks: dict[str, dict[str, list[int]]] | None = None) -> None:
        self.answer_with(response(epoch, tasks))

    def answer_with(self, given: StreamsGroupHeartbeatResponse | KafkaError) -> None:
        self.member.on_answer(given, self.now)

    def learn(self) -> None:
        """Give the metadata that it requires, and poll."""
        ready = self.member.ready(self.now)
        if ready.topics is not None:
            view = {name: [frozenset[str]()] * COUNTS[name] for name in ready.topics}
            self.member.on_topics(view, self.now)
        self.poll()

    def join(self, **tasks: dict[str, list[int]]) -> None:
        self.request()
        self.answer(1, tasks=tasks)
        self.learn()
        self.request()
        self.answer(1)
        assert self.member.state is HeartbeatState.STABLE
        self.changes.clear()

    def beat(self, epoch: int, **tasks: dict[str, list[int]]) -> StreamsGroupHeartbeatRequest:
        """The next heartbeat, answered with tasks."""
        self.now += 10.0
        self.member.on_poll(self.now)
        request = self.request()
        self.answer(epoch, tasks=tasks)
        self.learn()
        return request


def response(
    epoch: int, tasks: dict[str, dict[str, list[int]]] | None = None, **more: Any
) -> StreamsGroupHeartbeatResponse:
    made = StreamsGroupHeartbeatResponse(
        error_code=0,
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=5000,
        acceptable_recovery_lag=0,
        task_offset_interval_ms=0,
        status=None,
        endpoint_information_epoch=0,
    )
    if tasks is not None:
        for role in ("active", "standby", "warmup"):
            found = [
                TaskIds(subtopology_id=name, partitions=numbers)
                for name, numbers in tasks.get(role, {}).items()
            ]
            setattr(made, f"{role}_tasks", found)
    for name, each in more.items():
        setattr(made, name, each)
    return made


def owned(request: StreamsGroupHeartbeatRequest) -> dict[str, dict[str, list[int]]] | None:
    if request.active_tasks is None:
        return None
    found = {}
    for role in ("active", "standby", "warmup"):
        named = {each.subtopology_id: each.partitions for each in getattr(request, f"{role}_tasks")}
        if named:
            found[role] = named
    return found


def test_a_join_brings_the_topology_and_owns_nothing() -> None:
    request = Played(("here", 80)).request()
    assert (request.member_id, request.member_epoch, request.process_id) == ("m", 0, "process")
    assert request.rebalance_timeout_ms == 60_000
    assert request.user_endpoint == Endpoint(host="here", port=80)
    assert owned(request) == {}
    assert request.topology is not None
    first, second = request.topology.subtopologies
    assert (first.source_topics, first.repartition_sink_topics) == (["lines"], ["app-r"])
    assert [each.name for each in second.state_changelog_topics] == ["app-s-changelog"]
    (repartition,) = second.repartition_source_topics
    assert (repartition.name, repartition.partitions) == ("app-r", 4)
    (group,) = second.copartition_groups
    assert (group.source_topics, group.repartition_source_topics) == ([0], [0])


def test_active_tasks_become_the_partitions_that_their_inputs_have() -> None:
    played = Played()
    played.request()
    played.answer(1, tasks={"active": {"0": [1], "1": [0, 3]}})
    played.learn()
    (change,) = played.changes
    assert change.kind is Kind.ASSIGNED
    assert set(change.owned) == {
        TopicPartition("lines", 1),
        TopicPartition("app-r", 0),
        TopicPartition("rates", 0),
        TopicPartition("app-r", 3),  # rates has 2 partitions
    }


def test_a_target_is_acknowledged_when_the_user_has_it() -> None:
    played = Played()
    played.request()
    played.answer(1, tasks={"active": {"0": [1]}, "standby": {"1": [2]}, "warmup": {"1": [0]}})
    ready = played.member.ready(played.now)
    assert ready.topics == frozenset(("lines",)), "the partitions of copies are not read"
    assert ready.ask is None
    played.learn()
    request = played.request()
    assert owned(request) == {"active": {"0": [1]}, "standby": {"1": [2]}, "warmup": {"1": [0]}}
    assert request.topology is None
    assert played.member.tasks.copies == {GroupTask("1", 2), GroupTask("1", 0)}
    assert played.member.tasks.active == {GroupTask("0", 1)}, "a warm-up is not active"


def test_a_heartbeat_without_news_reports_nothing() -> None:
    played = Played()
    played.join(active={"0": [0]})
    played.now += 10.0
    request = played.request()
    assert owned(request) is None
    assert request.process_id is None
    assert request.rebalance_timeout_ms == -1


def test_what_is_revoked_is_given_up_before_it_is_reported() -> None:
    played = Played()
    played.join(active={"0": [0, 1]})
    played.now += 10.0
    played.request()
    played.answer(1, tasks={"active": {"0": [0]}})
    change = played.member.begin_change()
    assert change is not None
    assert (change.kind, change.partitions) == (Kind.REVOKED, (TopicPartition("lines", 1),))
    assert played.member.identity.epoch == 1, "it is committed as a member"
    played.now += 10.0
    played.member.is_there(played.now)
    assert owned(played.request()) is None, "not in the middle of a change"
    played.answer(1)
    played.member.end_change(played.now)
    played.poll()
    assert owned(played.request()) == {"active": {"0": [0]}}


def test_a_copy_goes_with_a_change_without_partitions() -> None:
    played = Played()
    played.join(active={"0": [0]}, standby={"1": [2]})
    played.beat(2, active={"0": [0]})
    (change,) = played.changes
    assert (change.kind, change.partitions) == (Kind.ASSIGNED, ())
    assert played.member.tasks.copies == frozenset()
    assert owned(played.request()) == {"active": {"0": [0]}}


def test_a_standby_that_becomes_active_is_given_up_as_a_standby_first() -> None:
    played = Played()
    played.join(standby={"1": [2]})
    played.beat(2)
    assert owned(played.request()) == {}
    assert played.member.tasks == NO_TASKS
    played.answer(3, tasks={"active": {"1": [2]}})
    played.learn()
    assert played.changes[-1].partitions == (TopicPartition("app-r", 2),)
    assert owned(played.request()) == {"active": {"1": [2]}}


def test_an_active_task_that_becomes_a_standby_keeps_the_copies() -> None:
    played = Played()
    played.join(active={"0": [0]}, standby={"1": [1]})
    played.beat(1, active={}, standby={"1": [1]})
    assert [each.kind for each in played.changes] == [Kind.REVOKED, Kind.ASSIGNED]
    assert played.member.tasks.copies == {GroupTask("1", 1)}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_loses_all_and_joins_again(code: ErrorCode) -> None:
    played = Played()
    played.join(active={"0": [0]}, standby={"1": [1]})
    played.now += 10.0
    played.member.on_poll(played.now)
    played.request()
    played.answer_with(response(1, error_code=code, error_message=""))
    assert played.member.identity == NOBODY
    played.poll()
    (change,) = played.changes
    assert (change.kind, change.partitions) == (Kind.LOST, (TopicPartition("lines", 0),))
    assert played.member.tasks == NO_TASKS
    request = played.request()
    assert (request.member_epoch, owned(request)) == (0, {})
    assert request.topology is not None


def test_a_fenced_member_with_copies_alone_has_them_closed() -> None:
    played = Played()
    played.join(standby={"1": [1]})
    played.now += 10.0
    played.member.on_poll(played.now)
    played.request()
    played.answer_with(response(1, error_code=ErrorCode.UNKNOWN_MEMBER_ID, error_message=""))
    played.poll()
    assert [each.kind for each in played.changes] == [Kind.LOST]
    assert played.member.tasks == NO_TASKS


def test_after_a_lost_response_without_tasks_all_is_given_up_in_order() -> None:
    played = Played()
    played.join(active={"0": [0]}, standby={"1": [1]})
    played.now += 10.0
    played.member.on_poll(played.now)
    played.request()
    played.answer_with(KafkaError(ErrorCode.NETWORK_EXCEPTION))
    played.now += 1.0
    request = played.request()
    assert owned(request) == {"active": {"0": [0]}, "standby": {"1": [1]}}
    played.answer(2)
    change = played.member.begin_change()
    assert change is not None
    assert change.kind is Kind.REVOKED
    assert played.member.identity == Identity("m", 2, None), "it is committed as a member"
    played.member.end_change(played.now)
    played.poll()
    assert played.member.tasks == NO_TASKS
    assert played.request().member_epoch == 0
    played.answer(2, tasks={"active": {"0": [0, 1]}})
    played.learn()
    assert played.member.tasks.active == {GroupTask("0", 0), GroupTask("0", 1)}


@pytest.mark.parametrize("has_tasks", [True, False])
def test_what_was_never_sent_or_is_answered_with_tasks_costs_nothing(has_tasks: bool) -> None:
    played = Played()
    played.join(active={"0": [0]})
    played.now += 10.0
    played.member.on_poll(played.now)
    played.request()
    code = ErrorCode.NETWORK_EXCEPTION if has_tasks else ErrorCode.COORDINATOR_NOT_AVAILABLE
    played.answer_with(KafkaError(code))
    played.now += 1.0
    played.request()
    played.answer(1, tasks={"active": {"0": [0]}} if has_tasks else None)
    played.poll()
    assert Kind.REVOKED not in [each.kind for each in played.changes]
    assert played.member.owned == (TopicPartition("lines", 0),)


def test_what_hinders_the_group_is_logged_once_and_asked_for_soon() -> None:
    played = Played()
    status = [Status(status_code=3, status_detail="Internal topics are missing: app-r")]
    for _ in range(2):
        played.request()
        played.answer_with(response(1, {}, status=status))
        played.poll()
        played.now += 0.3
    assert [each.reason for each in played.member.notices] == [status[0].status_detail]
    assert played.request().member_epoch == 1


def test_a_group_that_waits_for_more_members_is_no_warning() -> None:
    played = Played()
    status = [Status(status_code=5, status_detail="Assignment delayed")]
    played.request()
    played.answer_with(response(1, {}, status=status))
    assert played.member.statuses == ("Assignment delayed",)
    assert played.member.notices == []


def test_owners_of_partitions_come_with_the_endpoints() -> None:
    played = Played()
    played.request()
    endpoint = EndpointToPartitions(
        user_endpoint=Endpoint(host="there", port=81),
        active_partitions=[WirePartitions(topic="lines", partitions=[1])],
        standby_partitions=[WirePartitions(topic="app-r", partitions=[0])],
    )
    more: dict[str, Any] = {"partitions_by_user_endpoint": [endpoint]}
    played.answer_with(response(1, {}, endpoint_information_epoch=7, **more))
    played.poll()
    assert played.member.active_owners == {TopicPartition("lines", 1): "there:81"}
    assert played.member.standby_owners == {TopicPartition("app-r", 0): ("there:81",)}
    played.now += 10.0
    assert played.request().endpoint_information_epoch == 7


def test_a_member_that_closes_leaves_with_its_last_heartbeat() -> None:
    played = Played()
    played.join(active={"0": [0]}, standby={"1": [1]})
    played.member.leave(is_closing=True)
    assert played.request().member_epoch == -1
    played.answer(-1)
    assert played.member.is_out


def test_a_static_member_tells_its_name_and_leaves_for_a_while() -> None:
    played = Played(instance_id="static")
    played.join(active={"0": [0]})
    played.member.leave(is_closing=True)
    request = played.request()
    assert (request.instance_id, request.member_epoch) == ("static", -2)
    played.answer(-2)
    assert played.member.is_out


def test_a_static_member_that_ends_its_app_leaves_for_good() -> None:
    played = Played(instance_id="static")
    played.join(active={"0": [0]})
    played.member.ends_app = True
    played.member.leave(is_closing=True)
    request = played.request()
    assert (request.member_epoch, request.shutdown_application) == (-1, True)


def test_a_member_waits_until_members_of_another_protocol_have_gone() -> None:
    """It says so once, and joins when the group is free."""
    played = Played()
    for code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
        played.request()
        played.answer_with(response(0, error_code=code, error_message=""))
        assert played.member.take_error() is None
        assert played.member.ready(played.now).ask is None, "not at once"
        played.now += 2.0
    (notice,) = played.member.notices
    assert "group.protocol" in str(notice)
    played.join(active={"0": [0]})


def test_positions_are_reported_as_often_as_wanted_and_when_a_warm_up_is_near() -> None:
    played = Played()
    played.join(warmup={"1": [2]})
    far, near = {GroupTask("1", 2): TaskPosition(5, 50)}, {GroupTask("1", 2): TaskPosition(45, 50)}
    played.member.on_positions(far, played.now)
    played.now += 10.0
    assert played.request().task_offsets is None, "a coordinator that does not want them"
    terms: dict[str, Any] = {"task_offset_interval_ms": 60_000, "acceptable_recovery_lag": 10}
    played.answer_with(response(1, **terms))
    played.member.on_positions(far, played.now)
    played.now += 10.0
    played.member.on_poll(played.now)
    request = played.request()
    assert [(each.partition, each.offset) for each in request.task_offsets or ()] == [(2, 5)]
    assert [(each.partition, each.offset) for each in request.task_end_offsets or ()] == [(2, 50)]
    played.answer_with(response(1, **terms))
    played.member.on_positions({GroupTask("1", 2): TaskPosition(9, 50)}, played.now)
    assert played.member.ready(played.now).ask is None
    played.member.on_positions(near, played.now)
    assert [each.offset for each in played.request().task_offsets or ()] == [45], "at once"
    played.answer_with(response(1, **terms))
    played.member.on_positions(near, played.now)
    assert played.member.ready(played.now).ask is None, "once"
