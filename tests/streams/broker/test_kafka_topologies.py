"""Every topology that Kafka's driver has answered runs on a broker, with two partitions.

Record by record, a worker gives there what our driver gives with two partitions: the same records
with the same times, in any order of those that one input causes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

import pytest

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams import StreamsError
from moldau.testing import SyncEmbeddedBroker
from tests.streams.broker.apps import PARTITIONS, Broker, RunningApp, clients
from tests.streams.broker.kafka_scripts import all_scripts, sampled
from tests.streams.kafka.answering import FAILED, ours
from tests.streams.kafka.language import Answer, Script, Topology, shown

AT_ONCE: Final = 6
PARTS: Final = 10


async def on_broker(broker: Broker, script: Script, name: str, state: str) -> Answer:
    """What a worker gives for each input."""
    topology = Topology(script.topology, name=name, prefix=f"{name}-")
    answer: Answer = []
    try:
        async with RunningApp.of(broker, topology.app.plan(), state) as app:
            for line in script.inputs:
                await _give(broker, topology, line)
                found = await app.settled()
                answer.append(
                    sorted(
                        shown(each.topic.removeprefix(topology.prefix), *each[2:]) for each in found
                    )
                )
    except StreamsError:
        return FAILED
    return answer


async def _give(broker: Broker, topology: Topology, line: str) -> None:
    topic, key, value, time, *headers = line.split(" ")
    given = [None if word == "null" else word.encode() for word in (key, value)]
    marks = [(mark[1:], b"") for mark in headers]
    await broker.write(topology.prefix + topic, given[0], given[1], int(time[1:]), marks)
    await broker.written()


def differing(servers: str, asked: list[Script], folder: Path) -> dict[str, object]:
    """What a broker and the driver answer where that is not the same."""
    found: dict[str, object] = {}

    async def whole(runtime: Runtime) -> None:
        limit = asyncio.Semaphore(AT_ONCE)
        async with clients(servers, runtime) as broker:

            async def one(at: int, script: Script) -> None:
                async with limit:
                    name = f"{folder.name}-{at}"
                    told = await on_broker(broker, script, name, str(folder))
                answer = ours(script, partitions=PARTITIONS)
                expected = answer if answer == FAILED else [sorted(each) for each in answer]
                if told != expected:
                    found[script.name] = (script.topology, script.inputs, expected, told)

            async with asyncio.TaskGroup() as group:
                for at, script in enumerate(asked):
                    group.create_task(one(at, script))

    run(whole)
    return found


def test_topologies_of_a_third_of_the_families_run_on_a_broker(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    asked = sampled()

    assert len(asked) >= 12
    assert differing(moldau_broker.bootstrap_servers, asked, tmp_path) == {}


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_every_topology_runs_on_a_broker(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path, part: int
) -> None:
    """In parts, which run beside each other. The first three have all that is written by hand and
    one script of each family."""
    every = all_scripts()
    size = -(-len(every) // PARTS)
    asked = every[part * size : (part + 1) * size]

    assert differing(moldau_broker.bootstrap_servers, asked, tmp_path) == {}
