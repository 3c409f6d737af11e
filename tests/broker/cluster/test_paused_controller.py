"""A controller that stands still is left as soon as another one is elected."""

from __future__ import annotations

import asyncio

from moldau.broker.server.outside import FORWARDING_SECONDS
from moldau.client import Admin, NewTopic
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime import Runtime
from tests.broker.cluster.world import SimulatedBrokers, new_world


async def is_created(admin: Admin) -> bool:
    try:
        found = (await admin.create_topics([NewTopic("after", 1, 1)]))["after"]
    except KafkaError:
        return False
    is_there = ErrorCode.TOPIC_ALREADY_EXISTS
    return not isinstance(found, KafkaError) or found.code is is_there


def test_a_request_to_a_paused_controller_does_not_wait_for_it() -> None:
    with new_world(21) as world:
        brokers = SimulatedBrokers(world)
        brokers.await_up()
        paused = brokers.controller()
        asked = next(each for each in brokers.node_ids if each != paused)
        took: list[float] = []

        async def main(runtime: Runtime) -> None:
            async with Admin(
                runtime=runtime, bootstrap_servers=f"b{asked}:9092", request_timeout_ms=20_000
            ) as admin:
                await admin.create_topics([NewTopic("before", 1, 1)])
                brokers.pause(paused)
                began = asyncio.get_running_loop().time()
                while not await is_created(admin):
                    pass
                took.append(asyncio.get_running_loop().time() - began)

        brokers.run(main, within=120)
        assert took[0] < FORWARDING_SECONDS / 2
