"""DeleteRecords is answered when every live replica has deleted the records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.client import Admin, NewTopic, Producer, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request
from moldau.protocol.messages.fetch import FetchRequest
from moldau.runtime import Runtime
from tests.broker.cluster.world import SimulatedBrokers, new_world

TOPIC = "t"
PLACE = TopicPartition(TOPIC, 0)


def starts_of(brokers: SimulatedBrokers) -> dict[int, int]:
    """Where the log of each running replica begins."""
    return {number: log.log_start_offset for number, log in brokers.logs(TOPIC).items()}


async def fill(runtime: Runtime, servers: str) -> None:
    async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
        await admin.create_topics([NewTopic(TOPIC, 1, 3)])
    async with Producer(runtime=runtime, bootstrap_servers=servers, acks="all") as producer:
        for number in range(10):
            await (await producer.send(TOPIC, b"%d" % number, partition=0))


def test_followers_have_deleted_them_when_it_is_answered() -> None:
    with new_world(5) as world:
        brokers = SimulatedBrokers(world)
        brokers.await_up()
        seen: list[dict[int, int]] = []

        async def main(runtime: Runtime) -> None:
            await fill(runtime, brokers.bootstrap_servers)
            async with Admin(runtime=runtime, bootstrap_servers=brokers.bootstrap_servers) as admin:
                began = asyncio.get_running_loop().time()
                told = await admin.delete_records({PLACE: 6})
                took_s = asyncio.get_running_loop().time() - began
                seen.append(starts_of(brokers))
                assert told[PLACE] == 6
                assert took_s < 0.4, "followers hear of it at once, not after their next wait"

        brokers.run(main, within=120)
        assert seen == [{1: 6, 2: 6, 3: 6}]
        assert not brokers.failures


def test_a_follower_that_stands_still_makes_it_time_out() -> None:
    with new_world(6) as world:
        brokers = SimulatedBrokers(world, broker_session_timeout_ms="300000")
        brokers.await_up()
        errors: list[object] = []

        async def main(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            await fill(runtime, servers)
            leader = brokers.leader_of(TOPIC)
            still = next(each for each in (3, 2, 1) if each not in (leader, brokers.controller()))
            brokers.nodes[still].pause()
            async with Admin(
                runtime=runtime, bootstrap_servers=servers, request_timeout_ms=3000
            ) as admin:
                told = (await admin.delete_records({PLACE: 4}))[PLACE]
                assert isinstance(told, KafkaError)
                errors.append(told.code)
            brokers.nodes[still].resume()

        brokers.run(main, within=120)
        assert errors == [ErrorCode.REQUEST_TIMED_OUT]
        world.run_until(lambda: set(starts_of(brokers).values()) == {4}, within=30)


def test_followers_send_only_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int, int]] = []
    send = ClientConnection.send

    def noted(self: ClientConnection, request: Request, version: int, **how: Any) -> list[Any]:
        if isinstance(request, FetchRequest):
            replica = request.replica_state
            if replica.replica_id >= 0 and replica.replica_epoch >= 0:
                named = sum(len(each.partitions) for each in request.topics)
                sent.append((request.session_id, request.session_epoch, named))
        return send(self, request, version, **how)

    monkeypatch.setattr(ClientConnection, "send", noted)
    with new_world(7) as world:
        brokers = SimulatedBrokers(world)
        brokers.await_up()

        async def main(runtime: Runtime) -> None:
            await fill(runtime, brokers.bootstrap_servers)

        brokers.run(main, within=120)
        world.run_for(2)
        sent.clear()
        world.run_for(5)
        assert sent
        assert all(session and epoch and not named for session, epoch, named in sent), sent[:9]
