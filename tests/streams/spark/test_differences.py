"""Topologies give on the engine `spark` what they give in the driver and by the plain model.

The stages run on a real broker, without Java: see `tests.streams.spark.batches`. MOLDAU_SPARK_APPS
says how many random apps the deep test has, MOLDAU_RANDOM_FIRST the first one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from moldau.client.sync import Producer
from moldau.streams.spark.limits import problem_on_spark
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps
from tests.spark.streams_apps import Reader, outs_of
from tests.streams.broker.apps import PARTITIONS
from tests.streams.broker.kafka_scripts import all_scripts, sampled
from tests.streams.broker.random_apps import RandomApp, drawn_inputs
from tests.streams.broker.random_outcome import wrong
from tests.streams.kafka.answering import FAILED, ours
from tests.streams.kafka.language import Script, Topology, shown
from tests.streams.spark.batches import Batches
from tests.streams.spark.topology_input import Row, make_topics, write

SEEDS: Final = int(os.environ.get("MOLDAU_SPARK_APPS", "4"))
FIRST: Final = int(os.environ.get("MOLDAU_RANDOM_FIRST", "0"))
PARTS: Final = 2
EVERY: Final = int(os.environ.get("MOLDAU_SPARK_EVERY", "64"))
"""Of the scripts, each of so many is tried; 1 tries all."""


def random_app(servers: str, seed: int, folder: Path) -> list[Any]:
    """What is wrong with the outputs of a seed."""
    app, inputs = RandomApp(seed, f"{folder.name}-{seed}"), drawn_inputs(seed)
    make_topics(servers, app.app)
    rows: list[Row] = [
        (app.topic(topic), key.encode(), None if value is None else str(value).encode(), at, [])
        for topic in inputs
        for at, (key, value) in enumerate(inputs[topic])
    ]
    chance = Random(f"batches {seed}")
    batches = Batches(app.app.plan(), servers, folder / str(seed), chance)
    try:
        with Producer(bootstrap_servers=servers) as producer:
            for parity in (0, 1):
                write(producer, (each for each in rows if (each[3] < 15) is not bool(parity)), {})
                batches.settle()
    finally:
        batches.close()
    found: dict[str, list[tuple[str, int | None]]] = {}
    for each in outs_of(servers, app.app):
        assert each.key is not None
        value = None if each.value is None else int(each.value)
        found.setdefault(each.topic, []).append((each.key.decode(), value))
    return wrong(app, seed, found)


def differing(servers: str, seeds: Iterable[int], folder: Path) -> dict[int, object]:
    return {seed: found for seed in seeds if (found := random_app(servers, seed, folder))}


def test_random_apps_come_to_what_the_model_says(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    assert differing(moldau_broker.bootstrap_servers, range(2), tmp_path) == {}


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_more_random_apps_come_to_what_the_model_says(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path, part: int
) -> None:
    seeds = range(FIRST + part, FIRST + SEEDS, PARTS)

    assert differing(moldau_broker.bootstrap_servers, seeds, tmp_path) == {}


def script_answer(servers: str, script: Script, name: str, folder: Path) -> list[list[str]] | None:
    """What comes out for each input; None if the app is refused on Spark."""
    topology = Topology(script.topology, name=name, prefix=f"{name}-")
    plan = topology.app.plan()
    if problem_on_spark(plan) is not None:
        return None
    make_topics(servers, topology.app)
    batches = Batches(plan, servers, folder / name, Random(name))
    answer, keyless = [], dict[str, int]()
    try:
        with Producer(bootstrap_servers=servers) as producer, Reader(servers, topology.app) as outs:
            for line in script.inputs:
                write(producer, [_row(topology.prefix, line)], keyless)
                batches.settle()
                found = outs.new()
                answer.append(
                    sorted(
                        shown(each.topic.removeprefix(topology.prefix), *each[2:]) for each in found
                    )
                )
    finally:
        batches.close()
    return answer


def _row(prefix: str, line: str) -> Row:
    topic, key, value, time, *headers = line.split(" ")
    first, second = (None if word == "null" else word.encode() for word in (key, value))
    return prefix + topic, first, second, int(time[1:]), [(mark[1:], b"") for mark in headers]


def differing_scripts(servers: str, asked: list[Script], folder: Path) -> dict[str, object]:
    """What the engine and the driver answer where that is not the same. A script that fails in the
    driver has no answer to compare."""
    found: dict[str, object] = {}
    compared = 0
    for at, script in enumerate(asked):
        expected = ours(script, partitions=PARTITIONS)
        if expected == FAILED:
            continue
        told = script_answer(servers, script, f"{folder.name}-{at}", folder)
        if told is None:
            continue
        compared += 1
        if told != [sorted(each) for each in expected]:
            found[script.name] = (script.topology, script.inputs, expected, told)
    assert compared > len(asked) // 2
    return found


def test_topologies_of_some_families_give_the_answers_of_the_driver(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    assert differing_scripts(moldau_broker.bootstrap_servers, sampled()[::6], tmp_path) == {}


def test_dead_letters_late_records_and_held_windows_are_those_of_the_embedded_engine(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, names = moldau_broker.bootstrap_servers, (f"{moldau_topic}-e", f"{moldau_topic}-s")
    embedded, on_spark = (apps.rest_of_dsl(name) for name in names)
    for app in (embedded, on_spark):
        apps.make_topics(servers, app)
        apps.write(servers, app.name, 0, 120)
    expected = apps.comparable(apps.embedded(servers, embedded, tmp_path / "state"), names[0])
    with closing(Batches(on_spark.plan(), servers, tmp_path, Random(1))) as batches:
        batches.settle()

    assert {where[0] for where in expected} == {
        "-dead", "-joined", "-late", "-closed", "-held", "-totals"
    }  # fmt: skip
    assert apps.comparable(apps.outs_of(servers, on_spark), names[1]) == expected


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
def test_every_topology_gives_the_answers_of_the_driver(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path, part: int
) -> None:
    asked = all_scripts()[part :: PARTS * EVERY]

    assert differing_scripts(moldau_broker.bootstrap_servers, asked, tmp_path) == {}


def test_inputs_run_in_the_order_of_their_times_however_batches_are_cut(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, names = moldau_broker.bootstrap_servers, (f"{moldau_topic}-e", f"{moldau_topic}-s")
    whole, cut = (apps.windowed_join(name) for name in names)
    for app in (whole, cut):
        apps.make_topics(servers, app)
        apps.write(servers, app.name, 0, 60)
    expected = apps.in_order(apps.embedded(servers, whole, tmp_path / "state"), names[0])

    batches = Batches(cut.plan(), servers, tmp_path, Random(1), (5, 9))
    try:
        batches.settle()
    finally:
        batches.close()

    assert sum(map(len, expected.values())) > 50
    assert apps.in_order(apps.outs_of(servers, cut), names[1]) == expected
