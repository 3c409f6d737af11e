"""Brokers that keep less text with an offset than the stream times of a task take."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams import Streams, tumbling
from moldau.streams.engine.task import TaskSettings
from moldau.streams.running import make_task
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster
from tests.streams.worker.test_worker import has


def test_offsets_are_committed_without_texts_that_the_broker_refuses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Streams("texts", emit="every")
    lines = app.stream("lines", str, key=str).group_by(lambda line: line)
    lines.window(tumbling("1m")).count(name="counts").changes().map(
        lambda key, value: (key.key, value)
    ).to("out")

    async def scenario(servers: str, runtime: Runtime) -> None:
        cluster = Cluster(servers, runtime)
        await cluster.make("lines", "out")
        make = partial(make_task, TaskSettings())
        for count in ("1", "2"):  # the second worker goes on behind the first one's record
            async with cluster.worker(app.plan(), str(tmp_path), make_task=make):
                await cluster.write("lines", "a")
                await cluster.read("out", has({"a": count}))

    settings = {"offset.metadata.max.bytes": 8, "group.initial.rebalance.delay.ms": 0}
    with SyncEmbeddedBroker(settings) as broker:
        run(partial(scenario, broker.bootstrap_servers))
    told = [each.getMessage() for each in caplog.records if "stream times" in each.getMessage()]
    assert len(told) == 2, "once for each worker"
    assert "OFFSET_METADATA_TOO_LARGE" in told[0]
    assert told[0].endswith(
        "offsets are committed without stream times, so after a restart windows may stay open "
        "longer; raise offset.metadata.max.bytes on the brokers and start the app again"
    )
