"""Answers whose bytes are not what their schema says: asked for again, and in the end told of."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from moldau.client import Admin, Producer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.declare import Request
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.produce import ProduceRequest
from moldau.runtime import Runtime
from tests.client.world import BOOTSTRAP, ClientWorld

NO_ANSWER = "the broker sent what is no answer"
ALWAYS = 10**6


def producer(runtime: Runtime, **options: Any) -> Producer:
    return Producer(runtime=runtime, bootstrap_servers=BOOTSTRAP, **options)


async def failure(awaitable: Awaitable[Any]) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        await awaitable
    return caught.value


@pytest.mark.parametrize("request_type", [InitProducerIdRequest, MetadataRequest, ProduceRequest])
def test_a_producer_goes_on_after_answers_that_cannot_be_decoded(
    request_type: type[Request],
) -> None:
    async def main(runtime: Runtime) -> tuple[list[int], float]:
        async with producer(runtime) as sender:
            world.cluster.cut_answers[request_type] = 2
            begun = runtime.clock.monotonic()
            offsets = [(await (await sender.send("t", b"%d" % n))).offset for n in range(3)]
            assert sender.metrics()["producer-metrics"]["requests-in-flight"] == 0
        return offsets, runtime.clock.monotonic() - begun

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        offsets, seconds = world.run_client(main)
        assert world.cluster.cut_answers[request_type] == 0
        assert log.values() == [b"0", b"1", b"2"]
    assert offsets == [0, 1, 2]
    assert seconds < 2


def test_metadata_are_asked_for_again_and_a_new_leader_is_found() -> None:
    async def main(runtime: Runtime) -> int:
        async with producer(runtime) as sender:
            await (await sender.send("t", b"0"))
            world.cluster.cut_answers[MetadataRequest] = 2
            world.cluster.move("t", 0, 2)
            return (await (await sender.send("t", b"1"))).offset

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        assert world.run_client(main, within=10) == 1


@pytest.mark.parametrize(("request_type", "asked"), [(ApiVersionsRequest, 2), (MetadataRequest, 1)])
def test_a_start_ends_with_what_is_wrong_with_the_answer(
    request_type: type[Request], asked: int
) -> None:
    async def main(runtime: Runtime) -> KafkaError:
        world.cluster.cut_answers[request_type] = asked
        error = await failure(producer(runtime, start_timeout_ms=0).start())
        async with producer(runtime):
            return error

    with ClientWorld() as world:
        error = world.run_client(main, within=5)
    assert NO_ANSWER in str(error)
    assert request_type.__name__.replace("Request", "Response") in str(error)


def test_a_record_whose_answers_are_none_fails_with_why() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with producer(runtime, delivery_timeout_ms=40_000) as sender:
            return await failure(await sender.send("t", b"v"))

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.cluster.cut_answers[ProduceRequest] = ALWAYS
        error = world.run_client(main)
    assert error.code is ErrorCode.REQUEST_TIMED_OUT
    assert NO_ANSWER in str(error.context["last_error"])


def test_a_call_that_is_tried_again_in_vain_fails_with_why() -> None:
    async def main(runtime: Runtime) -> KafkaError:
        async with Admin(runtime=runtime, bootstrap_servers=BOOTSTRAP) as admin:
            world.cluster.cut_answers[MetadataRequest] = ALWAYS
            return await failure(admin.list_topics())

    with ClientWorld() as world:
        error = world.run_client(main)
    assert (error.code, error.reason) == (ErrorCode.NETWORK_EXCEPTION, NO_ANSWER)
    assert "MetadataResponse" in str(error.context["why"])
