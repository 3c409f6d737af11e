"""The controller on its log in a simulated world: answers, failures, and a life after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final
from unittest.mock import patch

import pytest

from moldau.broker.controller.active_controller import ActiveController, Observer
from moldau.broker.controller.image import Image
from moldau.broker.controller.metadata_batches import replay_batches
from moldau.broker.controller.rules import Rules
from moldau.broker.decision.context import RequestContext, of_node
from moldau.broker.raft.flushing import Flusher
from moldau.broker.raft.quorum import Membership, Quorum
from moldau.errors import CorruptLog
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import MetadataRecord, Request, Response
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from moldau.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.runtime import Runtime
from moldau.runtime.simulated import Options, Simulation
from tests.broker.controller.cluster import CLUSTER_ID, FEATURES, schema, topic
from tests.broker.raft.leading import lead

ENCODE: Final = "moldau.broker.controller.active_controller.encode_records"


class Node:
    """A controller, and the image of a broker that hears of what is committed."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.image = Image()
        self.failures: list[Exception] = []
        runtime.files.make_dirs("/data")
        now_ms = runtime.clock.wall_ms()
        self.quorum = Quorum.open(runtime.files, "/data", Membership(1, (1,)), now_ms)
        self.flusher = Flusher(runtime, self.quorum, self.on_flushed, self.failures.append)
        replay_batches(self.image, self.quorum.batches())  # all of it is from lives before
        lead(self.quorum, now_ms)
        self.active = ActiveController(
            runtime,
            self.quorum,
            Rules(CLUSTER_ID, 1, schema()),
            Observer(
                self.on_committed,
                lambda: self.flusher.flush_soon(),
                self.failures.append,
            ),
        )
        self.active.start()

    def on_committed(self, records: Sequence[MetadataRecord], end_offset: int) -> None:
        assert end_offset <= self.quorum.high_watermark
        self.image.replay_all(records)

    def on_flushed(self, has_advanced: bool) -> None:
        if has_advanced:
            self.active.on_committed()

    async def ask(self, request: Request) -> Response | KafkaError:
        answer: asyncio.Future[Response | KafkaError] = asyncio.get_running_loop().create_future()
        context = of_node(1, type(request).spec.versions.last)
        self.active.request(request, context, answer.set_result)
        return await answer

    async def join(self) -> None:
        registered = await self.ask(
            BrokerRegistrationRequest(
                broker_id=1,
                cluster_id=CLUSTER_ID,
                incarnation_id=self.runtime.random.randbytes(16),
                listeners=[],
                features=[
                    Feature(name=name, min_supported_version=low, max_supported_version=high)
                    for name, (low, high) in FEATURES.items()
                ],
                rack=None,
                log_dirs=[b"d" * 16],
            )
        )
        assert isinstance(registered, BrokerRegistrationResponse)
        assert registered.error_code == 0
        await self.ask(
            BrokerHeartbeatRequest(
                broker_id=1,
                broker_epoch=registered.broker_epoch,
                current_metadata_offset=self.quorum.high_watermark,
                want_fence=False,
                want_shut_down=False,
            )
        )

    async def create(self, *names: str) -> list[int]:
        answer = await self.ask(CreateTopicsRequest(topics=[topic(each) for each in names]))
        assert isinstance(answer, CreateTopicsResponse), answer
        return [each.error_code for each in answer.topics]


def test_what_is_answered_is_committed_and_published_and_there_after_power_loss() -> None:
    lives: list[list[str]] = []

    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        lives.append(list(node.image.topics.names()))
        await node.join()
        made = await asyncio.gather(*(node.create(f"t{len(lives)}-{each}") for each in range(20)))
        assert made == [[0]] * 20
        assert node.image == node.active.controller.image
        await asyncio.Event().wait()

    with Simulation(5, Options()) as world:
        machine = world.add_node("a", main, start=False)
        for _ in range(3):
            machine.start()
            world.run_for(5)
            machine.power_loss()
            world.run_for(1)
    assert [len(each) for each in lives] == [0, 20, 40]


def test_a_request_that_comes_too_late_is_answered_and_leaves_no_record() -> None:
    done: list[bool] = []

    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        await node.join()
        client = RequestContext("app", "/10.0.0.7", 7, "PLAINTEXT")
        now_ms = runtime.clock.monotonic_ns() // 1_000_000
        request = CreateTopicsRequest(topics=[topic("late")], timeout_ms=100)
        end = node.quorum.log_end_offset
        answers: list[Response | KafkaError] = []
        node.active.request(request, client._replace(deadline_ms=now_ms), answers.append)
        (refused,) = answers
        assert isinstance(refused, KafkaError)
        assert refused.code is ErrorCode.REQUEST_TIMED_OUT
        assert node.quorum.log_end_offset == end
        assert await node.create("in-time") == [0]
        assert list(node.image.topics.names()) == ["in-time"]
        done.append(True)

    with Simulation(5, Options()) as world:
        world.add_node("a", main)
        world.run_for(5)
    assert done == [True]


def test_a_disk_that_fails_stops_the_controller_and_says_so() -> None:
    done: list[bool] = []

    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        await node.join()
        node.quorum.log.state.take_out_of_service(OSError(5, "gone"))
        refused = await node.ask(CreateTopicsRequest(topics=[topic("t")]))
        assert isinstance(refused, KafkaError)
        assert refused.code == ErrorCode.NOT_CONTROLLER
        assert len(node.failures) == 1
        assert node.active.controller.image.topics.by_name("t") is None
        later = await node.ask(CreateTopicsRequest(topics=[topic("u")]))
        assert isinstance(later, KafkaError)
        done.append(True)

    with Simulation(5, Options()) as world:
        world.add_node("a", main)
        world.run_for(5)
    assert done == [True]


def test_a_record_that_cannot_be_replayed_stops_the_controller() -> None:
    """All that wait are refused; the exception goes to the caller, which answers its own client."""
    done: list[bool] = []

    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        await node.join()
        heard: list[Response | KafkaError] = []
        waiting = CreateTopicsRequest(topics=[topic("t")])
        node.active.request(waiting, of_node(1, 7), heard.append)
        own: list[Response | KafkaError] = []
        fails = patch.object(Image, "replay_all", side_effect=ValueError("a bug"))
        with fails, pytest.raises(ValueError, match="a bug"):
            node.active.request(CreateTopicsRequest(topics=[topic("u")]), of_node(1, 7), own.append)
        (refused,) = heard
        assert isinstance(refused, KafkaError)
        assert refused.code == ErrorCode.NOT_CONTROLLER
        assert own == []
        assert [type(each) for each in node.failures] == [AssertionError]
        later = await node.ask(CreateTopicsRequest(topics=[topic("v")]))
        assert isinstance(later, KafkaError)
        done.append(True)

    with Simulation(5, Options()) as world:
        world.add_node("a", main)
        world.run_for(5)
    assert done == [True]


def test_what_is_too_large_for_a_batch_harms_nothing_else() -> None:
    done: list[bool] = []

    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        await node.join()
        end_offset = node.quorum.log_end_offset
        too_large = CorruptLog("the records do not fit into one batch", count=1)
        with patch(ENCODE, side_effect=too_large):
            refused = await node.ask(CreateTopicsRequest(topics=[topic("t")]))
        assert isinstance(refused, KafkaError)
        assert refused.code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert "fit into one batch" in str(refused)
        assert node.quorum.log_end_offset == end_offset
        assert await node.create("t") == [0]
        assert node.failures == []
        done.append(True)

    with Simulation(5, Options()) as world:
        world.add_node("a", main)
        world.run_for(5)
    assert done == [True]


def test_a_controller_of_an_earlier_epoch_writes_nothing() -> None:
    """It has not heard yet that another epoch has begun."""
    done: list[bool] = []

    async def main(runtime: Runtime) -> None:
        node = Node(runtime)
        await node.join()
        heard: list[Response | KafkaError] = []
        node.active.request(
            CreateTopicsRequest(topics=[topic("before")]), of_node(1, 7), heard.append
        )
        assert heard == []
        node.quorum.end_epoch()
        end_offset = node.quorum.log_end_offset
        for name in ("after", "too"):
            node.active.request(
                CreateTopicsRequest(topics=[topic(name)]), of_node(1, 7), heard.append
            )
        node.active.tick()
        node.active.on_committed()
        assert node.quorum.log_end_offset == end_offset
        codes = [each.code for each in heard if isinstance(each, KafkaError)]
        assert codes == [ErrorCode.NOT_CONTROLLER] * 3
        assert node.failures == []
        done.append(True)

    with Simulation(5, Options()) as world:
        world.add_node("a", main)
        world.run_for(5)
    assert done == [True]
