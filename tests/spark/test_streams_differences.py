"""Random topologies come on Spark itself to what the plain model says, all in one session.

Many more run on the engine's stages without Java, in `tests.streams.spark.test_differences`; here
Spark cuts the batches and shuffles the rows. MOLDAU_SPARK_LOCAL_APPS says how many, and
MOLDAU_RANDOM_FIRST which is the first.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Producer
from moldau.testing import SyncEmbeddedBroker
from tests.spark.streams_apps import outs_of
from tests.streams.broker.random_apps import RandomApp, drawn_inputs
from tests.streams.broker.random_outcome import wrong
from tests.streams.spark.topology_input import Row, make_topics, write

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = [pytest.mark.real, pytest.mark.deep]
SEEDS = int(os.environ.get("MOLDAU_SPARK_LOCAL_APPS", "2"))
FIRST = int(os.environ.get("MOLDAU_RANDOM_FIRST", "0"))


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_a_random_app_comes_to_what_the_model_says(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path, seed: int
) -> None:
    servers = moldau_broker.bootstrap_servers
    app, inputs = RandomApp(seed, moldau_topic), drawn_inputs(seed)
    make_topics(servers, app.app)
    rows: list[Row] = [
        (app.topic(topic), key.encode(), None if value is None else str(value).encode(), at, [])
        for topic in inputs
        for at, (key, value) in enumerate(inputs[topic])
    ]
    with Producer(bootstrap_servers=servers) as producer:
        write(producer, rows, {})
    given = app.app.on_spark(spark, checkpoint=str(tmp_path / "checkpoint"), bootstrap=servers)
    with given as running:
        running.process_available()

    found: dict[str, list[tuple[str, int | None]]] = {}
    for each in outs_of(servers, app.app):
        value = None if each.value is None else int(each.value)
        found.setdefault(each.topic, []).append(((each.key or b"").decode(), value))
    assert (app.text, wrong(app, seed, found)) == (app.text, [])
