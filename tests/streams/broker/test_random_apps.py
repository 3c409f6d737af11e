"""Random topologies start, run and end as the plain model says: in the driver, and on a broker.

MOLDAU_RANDOM_APPS says how many seeds a run on the broker has, MOLDAU_RANDOM_FIRST the first one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.testing import SyncEmbeddedBroker
from tests.streams.broker.apps import Broker, RunningApp, clients
from tests.streams.broker.random_apps import RandomApp, drawn_inputs
from tests.streams.broker.random_outcome import wrong

PARTS: Final = 4
SEEDS: Final = int(os.environ.get("MOLDAU_RANDOM_APPS", "100"))
FIRST: Final = int(os.environ.get("MOLDAU_RANDOM_FIRST", "0"))
AT_ONCE: Final = 6


@pytest.mark.parametrize("partitions", [1, 2, 5])
@pytest.mark.parametrize("decade", range(10))
def test_the_driver_comes_to_what_the_model_says(decade: int, partitions: int) -> None:
    for seed in range(10 * decade, 10 * decade + 10):
        app = RandomApp(seed, "app")
        driver = app.app.test(partitions=partitions)
        for topic, records in drawn_inputs(seed).items():
            rows: list[tuple[Any, Any, int]] = [
                (key, value, at) for at, (key, value) in enumerate(records)
            ]
            driver.pipe_all(app.topic(topic), rows)
        found = {
            topic: [(each.key, each.value) for each in driver.read(topic)] for topic in app.outputs
        }

        assert (seed, app.text, wrong(app, seed, found)) == (seed, app.text, [])


async def on_broker(broker: Broker, seed: int, name: str, state: str) -> list[Any]:
    """What is wrong with the outputs of a seed. Some have two workers, some start again."""
    app, inputs = RandomApp(seed, name), drawn_inputs(seed)
    async with RunningApp.of(broker, app.app.plan(), state, workers=1 + seed % 2) as running:
        records = [
            (topic, *record, at) for topic in inputs for at, record in enumerate(inputs[topic])
        ]
        half = len(records) // len(inputs) // 2
        await _write(broker, app, [each for each in records if each[3] < half])
        outs = await running.settled()
        if seed % 3 == 0:
            await running.stop()
            running.start(index=5 + seed % 2)  # with no state of its own
        await _write(broker, app, [each for each in records if each[3] >= half])
        outs += await running.settled()
    found: dict[str, list[tuple[str, int | None]]] = {}
    for each in outs:
        assert each.key is not None
        value = None if each.value is None else int(each.value)
        found.setdefault(each.topic, []).append((each.key.decode(), value))
    return wrong(app, seed, found)


async def _write(
    broker: Broker, app: RandomApp, records: list[tuple[str, str, int | None, int]]
) -> None:
    for topic, key, value, at in records:
        data = None if value is None else str(value).encode()
        await broker.write(app.topic(topic), key.encode(), data, at)
    await broker.written()


def failures(servers: str, seeds: Iterable[int], folder: Path) -> dict[int, object]:
    """By seed: the topology and what is wrong."""
    found: dict[int, object] = {}

    async def whole(runtime: Runtime) -> None:
        limit = asyncio.Semaphore(AT_ONCE)
        async with clients(servers, runtime) as broker:

            async def one(seed: int) -> None:
                name = f"{folder.name}-{seed}"
                async with limit:
                    try:
                        differing = await on_broker(broker, seed, name, str(folder))
                    except Exception as error:
                        differing = [repr(error)]
                if differing:
                    found[seed] = (RandomApp(seed, name).text, differing)

            async with asyncio.TaskGroup() as group:
                for seed in seeds:
                    group.create_task(one(seed))

    run(whole)
    return found


def test_some_apps_on_a_broker_come_to_what_the_model_says(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    assert failures(moldau_broker.bootstrap_servers, range(6), tmp_path) == {}


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_apps_on_a_broker_come_to_what_the_model_says(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path, part: int
) -> None:
    """In parts, which run beside each other."""
    seeds = range(FIRST + part, FIRST + SEEDS, PARTS)

    assert failures(moldau_broker.bootstrap_servers, seeds, tmp_path) == {}
