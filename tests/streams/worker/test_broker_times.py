"""A broker that gives records its own time, where a topic does not say otherwise."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from moldau.client import Admin, NewTopic, Producer
from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams import Streams, tumbling
from moldau.streams.engine.task import TaskSettings
from moldau.streams.running import make_task
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster
from tests.streams.worker.test_worker import has


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
