"""Brokers whose settings change what an app meets: texts that are too long, times of their own."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from moldau.client import Admin, NewTopic, Producer
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams import Streams, tumbling
from moldau.streams.engine.task import TaskSettings
from moldau.streams.running import make_task
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster, has


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


def test_records_keep_their_times_on_the_way_through_the_topics_of_an_app(tmp_path: Path) -> None:
    app = Streams("times", emit="every")
    words = app.stream("lines", str, key=str).group_by(lambda line: line)
    words.window(tumbling("1h")).count(name="n").changes().map(
        lambda key, count: (f"{key.key} {key.start}", str(count))
    ).to("out")

    async def scenario(servers: str, runtime: Runtime) -> None:
        cluster = Cluster(servers, runtime)
        async with Admin(bootstrap_servers=servers, runtime=runtime) as admin:
            own = {"message.timestamp.type": "CreateTime"}
            await admin.create_topic(NewTopic("lines", 1, 1, own))
        await cluster.make("out", partitions=1)
        async with Producer(bootstrap_servers=servers, runtime=runtime) as producer:
            await producer.send("lines", b"a", timestamp_ms=7)
        make = partial(make_task, TaskSettings())
        async with cluster.worker(app.plan(), str(tmp_path), make_task=make):
            await cluster.read("out", has({"a 0": "1"}))

    settings = {"log.message.timestamp.type": "LogAppendTime"}
    with SyncEmbeddedBroker(settings) as broker:
        run(partial(scenario, broker.bootstrap_servers))
