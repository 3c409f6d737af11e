"""Random apps with functions that fail are exact on a broker, read committed.

An app that stops is repaired and started again, with or without its state. MOLDAU_FAILING_APPS says
how many seeds the deep test has, MOLDAU_FAILING_FIRST the first one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams.problems import OperatorFailed, RecordFailed
from moldau.testing import SyncEmbeddedBroker
from tests.streams.broker.apps import Broker, RunningApp, clients
from tests.streams.broker.failing_outcome import wrong_on_broker
from tests.streams.failing_apps import FailingApp, Faults

SEEDS: Final = int(os.environ.get("MOLDAU_FAILING_APPS", "60"))
FIRST: Final = int(os.environ.get("MOLDAU_FAILING_FIRST", "0"))
_STOPS: Final = (RecordFailed, OperatorFailed)


async def play(broker: Broker, seed: int, name: str, state: str) -> None:
    """Run the app of a seed to its end."""
    app, faults = FailingApp(seed), Faults(dict(FailingApp(seed).faults))
    built = app.failing(faults, name)
    async with RunningApp.of(broker, built.plan(), state, workers=0) as running:
        running.start()
        for key, value, time in app.records:
            await broker.write(f"{name}-in", key.encode(), str(value).encode(), time)
        await broker.written()
        for attempt in range(1, 100):
            try:
                await running.settled()
                await running.stop()
                break
            except _STOPS:
                app.repair(faults)
                with suppress(*_STOPS):
                    await running.stop()
                running.start(index=attempt if seed % 2 else 0)


def check(servers: str, seeds: range, folder: Path) -> None:
    for seed in seeds:
        name = f"{folder.name}-{seed}"

        async def scenario(runtime: Runtime, seed: int = seed, name: str = name) -> None:
            async with clients(servers, runtime) as broker:
                await play(broker, seed, name, str(folder / str(seed)))

        run(scenario)
        assert (seed, wrong_on_broker(servers, seed, name)) == (seed, None)


def test_some_apps_with_failures_are_exact_on_a_broker(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    check(moldau_broker.bootstrap_servers, range(4), tmp_path)


@pytest.mark.deep
def test_apps_with_failures_are_exact_on_a_broker(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    check(moldau_broker.bootstrap_servers, range(FIRST, FIRST + SEEDS), tmp_path)
