"""A topic that a load finds, with a record in each partition."""

from __future__ import annotations

from bench.peer_brokers import MoldauBroker
from bench.wire import first_record
from moldau.runtime import Runtime
from moldau.runtime.real import run
from tests.broker.server.wire import wired


def made(broker: MoldauBroker, topic: str, partitions: int) -> str:
    async def scenario(runtime: Runtime) -> None:
        async with wired(runtime, "127.0.0.1", broker.port) as wire:
            await wire.create(topic, partitions)

    run(scenario)
    for partition in range(partitions):
        first_record(broker.port, topic, partition)
    return topic
