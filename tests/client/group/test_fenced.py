"""Two consumers with one group.instance.id: the later one has it, and the other one stays out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest

from moldau.client import Consumer, RebalanceListener, TopicPartition
from moldau.client.group.assignors import load_assignors
from moldau.client.group.classic_consumer import ClassicConsumer
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.member import MemberSettings, MemberSubscription
from moldau.client.group.subscription_bytes import encode_assignment
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from moldau.protocol.messages.sync_group import SyncGroupResponse
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import fill, read_all
from tests.client.group.simulated_consumer import OPTIONS, consumer
from tests.client.world import ClientWorld

KINDS = list(OPTIONS)


class Twins(ClientWorld):
    """The coordinator says FENCED_INSTANCE_ID to a static member that another one has replaced, as
    Kafka's does; and, with `is_fencing`, to every member that is in its group."""

    def __init__(self) -> None:
        super().__init__()
        fill(self.cluster.add_topic("t", [1])[0], 10)
        self.is_fencing = False
        self.is_taken = False
        """Whether somebody else has the name, and stays."""
        self._handle = self.cluster.groups.handle
        self.cluster.groups.handle = self._fence  # type: ignore[method-assign]

    def _fence(self, node_id: int, request: Any, reply: Any) -> None:
        def answered(response: Any) -> None:
            replaced = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)
            if self.is_fencing or response.error_code in replaced:
                response.error_code = ErrorCode.FENCED_INSTANCE_ID
            reply(response)

        if self.is_taken and getattr(request, "member_epoch", -1) == 0:
            code = ErrorCode.UNRELEASED_INSTANCE_ID
            reply(
                ConsumerGroupHeartbeatResponse(
                    throttle_time_ms=0, error_code=code, member_epoch=0, heartbeat_interval_ms=0
                )
            )
            return
        beats = isinstance(request, HeartbeatRequest) or (
            isinstance(request, ConsumerGroupHeartbeatRequest) and request.member_epoch > 0
        )
        self._handle(node_id, request, answered if beats else reply)

    def joins(self) -> int:
        return sum(
            isinstance(each, JoinGroupRequest)
            or (isinstance(each, ConsumerGroupHeartbeatRequest) and each.member_epoch == 0)
            for _, each in self.cluster.requests
        )


async def _fenced(reader: Consumer) -> None:
    """A poll says so, in words that help."""
    with pytest.raises(KafkaError, match=r"group\.instance\.id") as caught:
        await reader.poll(5.0)
    assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID
    assert (caught.value.context["group"], caught.value.context["instance"]) == ("g", "i")


@pytest.mark.parametrize("kind", ["eager", "cooperative"])
def test_twins_do_not_throw_each_other_out_for_ever(kind: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with (
            consumer(runtime, kind, group_instance_id="i") as first,
            consumer(runtime, kind, group_instance_id="i") as second,
        ):
            await first.subscribe("t")
            await read_all(first, 10)
            await second.subscribe("t")
            await second.poll(1.0)
            await _fenced(first)
            joins = world.joins()
            for _ in range(20):
                await _fenced(first)
                await second.poll(1.0)
            assert second.assignment == [TopicPartition("t", 0)]
            assert world.joins() == joins

    with Twins() as world:
        world.run_client(main)


class _Told(RebalanceListener):
    def __init__(self) -> None:
        self.lost: list[TopicPartition] = []

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.lost += partitions


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_fenced_stays_out_until_it_subscribes_anew(kind: str) -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, kind, group_instance_id="i") as reader:
            listener = _Told()
            await reader.subscribe("t", listener=listener)
            await read_all(reader, 10)
            world.is_fencing = True
            await asyncio.sleep(5)
            with pytest.raises(KafkaError, match=r"not committed: .*group\.instance\.id") as caught:
                await reader.commit()
            assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID
            await _fenced(reader)
            assert listener.lost == [("t", 0)], "before the error"
            assert reader.assignment == []
            world.is_fencing = False
            joins = world.joins()
            await reader.subscribe(["t", "u"])
            for _ in range(3):
                await _fenced(reader)
                await asyncio.sleep(5)
            assert world.joins() == joins
            await reader.unsubscribe()
            await reader.subscribe("t")
            assert len((await read_all(reader, 10))[0]) == 10

    with Twins() as world:
        world.run_client(main)


def test_who_finds_its_name_in_use_may_try_again() -> None:
    """With KIP-848 the newcomer is refused, and throws nobody out: as soon as the other's session
    has ended, it is let in. Until then each poll says so, and none waits in silence."""

    async def main(runtime: Runtime) -> None:
        async with consumer(runtime, "consumer", group_instance_id="i") as reader:
            await reader.subscribe("t")
            world.is_taken = True
            for polls in (1, 2, 3):
                began = runtime.clock.monotonic()
                with pytest.raises(KafkaError) as caught:
                    await reader.poll(60.0)
                assert runtime.clock.monotonic() - began < 1.0
                assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
                assert "group.instance.id" in caught.value.reason
                assert "Give each consumer its own" in caught.value.reason
                facts = caught.value.context
                assert (facts["group"], facts["instance"]) == ("g", "i")
                assert world.joins() == polls
            world.is_taken = False
            assert len((await read_all(reader, 10))[0]) == 10

    with Twins() as world:
        world.run_client(main)


def test_a_name_in_use_is_told_once_for_each_time_that_it_is_asked_for() -> None:
    member = ConsumerMember(MemberSettings("g", instance_id="i"), "m", random.Random(1))
    member.subscribe(MemberSubscription(frozenset(["t"])))
    for now in (0.0, 1.0):
        member.on_poll(now)
        assert member.ready(now).ask is not None
        code = ErrorCode.UNRELEASED_INSTANCE_ID
        refusal = ConsumerGroupHeartbeatResponse(
            throttle_time_ms=0, error_code=code, member_epoch=0, heartbeat_interval_ms=0
        )
        member.on_answer(refusal, now)
        error = member.take_error()
        assert isinstance(error, KafkaError)
        assert (error.context["group"], error.context["instance"]) == ("g", "i")
        assert member.take_error() is None


class _Static:
    """The core of a classic static member, and its coordinator by hand."""

    def __init__(self) -> None:
        terms = MemberSettings("g", instance_id="i", session_timeout_s=1000.0)
        self.core = ClassicConsumer(terms, load_assignors(["range"]), random.Random(7))
        self.now = 1.0
        self.core.subscribe(MemberSubscription(frozenset({"t"})))
        self.joins = 0

    def asked(self) -> Any:
        """The next request."""
        for _ in range(20):
            self.now += 10
            self.core.on_poll(self.now)
            ready = self.core.ready(self.now)
            if self.core.begin_change() is not None:
                self.core.end_change(self.now)
            if ready.ask is not None:
                return ready.ask.request
        raise AssertionError("it asks for nothing")

    def answer(self, answer: Any) -> None:
        self.core.on_answer(answer, self.now)

    def settle(self) -> None:
        """Let it join, as a member of its own id."""
        while not isinstance(request := self.asked(), HeartbeatRequest):
            if isinstance(request, JoinGroupRequest):
                assert request.member_id == ""
                self.joins += 1
                member = f"m{self.joins}"
                self.answer(joined(member))
            else:
                self.answer(SyncGroupResponse(error_code=0, assignment=encode_assignment([])))
        self.answer(HeartbeatResponse(error_code=0))

    def is_out(self) -> bool:
        """Whether an error keeps it out."""
        return self.core.kept_out_by is not None

    def beat(self, code: ErrorCode = ErrorCode.NONE) -> None:
        assert isinstance(self.asked(), HeartbeatRequest)
        self.answer(HeartbeatResponse(error_code=int(code)))


def joined(member: str) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=0,
        generation_id=1,
        protocol_type="consumer",
        protocol_name="range",
        leader="another",
        member_id=member,
        members=[],
    )


@pytest.mark.parametrize(
    "trouble",
    [
        KafkaError(ErrorCode.NETWORK_EXCEPTION),
        HeartbeatResponse(error_code=int(ErrorCode.NOT_COORDINATOR)),
    ],
    ids=["no answer", "moved"],
)
def test_a_member_that_may_have_fenced_itself_joins_again_once(trouble: Any) -> None:
    """The broker died with the member's last join: the next one knows it by its former id."""
    one = _Static()
    one.settle()
    assert isinstance(one.asked(), HeartbeatRequest)
    one.answer(trouble)
    one.beat(ErrorCode.FENCED_INSTANCE_ID)
    assert not one.is_out()
    one.settle()
    assert one.joins == 2

    one.beat(ErrorCode.FENCED_INSTANCE_ID)

    assert one.is_out(), "another one has the name"


def test_a_member_that_another_one_replaces_stays_out() -> None:
    one = _Static()
    one.settle()
    assert isinstance(one.asked(), HeartbeatRequest)
    one.answer(KafkaError(ErrorCode.NETWORK_EXCEPTION))
    one.beat()

    one.beat(ErrorCode.FENCED_INSTANCE_ID)

    assert one.is_out()
