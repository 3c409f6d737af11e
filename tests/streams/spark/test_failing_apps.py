"""Random apps with functions that fail are exact on the stages of the engine `spark`.

A batch in which the app stops is repaired and runs again, as the driver of a job that was started
again does. MOLDAU_FAILING_SPARK_APPS says how many seeds the deep test has.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Final

import pytest

from moldau.client.sync import Producer
from moldau.streams.problems import StreamsError
from moldau.streams.spark.limits import problem_on_spark
from moldau.testing import SyncEmbeddedBroker
from tests.streams.broker.failing_outcome import wrong_on_broker
from tests.streams.failing_apps import FailingApp, Faults
from tests.streams.spark.batches import Batches
from tests.streams.spark.topology_input import Row, make_topics, write

SEEDS: Final = int(os.environ.get("MOLDAU_FAILING_SPARK_APPS", "20"))
_STOPS_MAX: Final = 100


def play(servers: str, seed: int, name: str, folder: Path) -> bool:
    """Run the app of a seed to its end. Return False if the engine refuses it."""
    app, faults = FailingApp(seed), Faults(dict(FailingApp(seed).faults), name)
    built = app.failing(faults, name)
    if problem_on_spark(built.plan()) is not None:
        return False
    make_topics(servers, built)
    rows: list[Row] = [
        (f"{name}-in", key.encode(), str(value).encode(), time, [])
        for key, value, time in app.records
    ]
    with Producer(bootstrap_servers=servers) as producer:
        write(producer, rows, {})
    chance = Random(f"batches {seed}")
    batches = Batches(built.plan(), servers, folder, chance)
    try:
        for _ in range(_STOPS_MAX):
            try:
                batches.settle()
                return True
            except StreamsError:
                app.repair(faults)
        raise AssertionError(f"{app.text}: it does not come to its end")
    finally:
        batches.close()


def check(servers: str, seeds: range, folder: Path) -> int:
    """Check the apps of these seeds. Return how many of them the engine takes."""
    taken = 0
    for seed in seeds:
        name = f"{folder.name}-{seed}"
        if play(servers, seed, name, folder / str(seed)):
            taken += 1
            assert (seed, wrong_on_broker(servers, seed, name)) == (seed, None)
    return taken


def test_some_apps_with_failures_are_exact(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    assert check(moldau_broker.bootstrap_servers, range(3), tmp_path) == 3


@pytest.mark.deep
def test_apps_with_failures_are_exact(moldau_broker: SyncEmbeddedBroker, tmp_path: Path) -> None:
    assert check(moldau_broker.bootstrap_servers, range(SEEDS), tmp_path) > SEEDS // 2
