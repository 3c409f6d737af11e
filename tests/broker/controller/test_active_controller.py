"""The controller on its log in a simulated world: answers, failures, and a life after a crash."""

from __future__ import annotations

import asyncio
from typing import Final
from unittest.mock import patch

import pytest

from moldau.broker.controller.image import Image
from moldau.broker.decision.context import RequestContext, of_node
from moldau.errors import CorruptLog
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Response
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.runtime import Runtime
from moldau.runtime.simulated import Options, Simulation
from tests.broker.controller.cluster import topic
from tests.broker.controller.controller_node import Node
from tests.broker.one_node import simulate

ENCODE: Final = "moldau.broker.controller.active_controller.encode_records"


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

    simulate(main, seed=5, within=5)


def test_a_disk_that_fails_stops_the_controller_and_says_so() -> None:
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

    simulate(main, seed=5, within=5)


def test_a_record_that_cannot_be_replayed_stops_the_controller() -> None:
    """All that wait are refused; the exception goes to the caller, which answers its own client."""

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

    simulate(main, seed=5, within=5)


def test_what_is_too_large_for_a_batch_harms_nothing_else() -> None:
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

    simulate(main, seed=5, within=5)


def test_a_controller_of_an_earlier_epoch_writes_nothing() -> None:
    """It has not heard yet that another epoch has begun."""

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

    simulate(main, seed=5, within=5)
