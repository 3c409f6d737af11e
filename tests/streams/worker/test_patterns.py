"""An app that reads topics by a pattern takes up topics that are made while it runs."""

from __future__ import annotations

import re
from pathlib import Path

from moldau.client import Admin
from moldau.runtime import Runtime
from moldau.streams import Streams
from moldau.streams.running import run_here
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster
from tests.streams.worker.working import beside


async def test_new_topics_are_taken_up(
    runtime: Runtime, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    name = moldau_topic
    app = Streams(name)
    lines = app.stream(re.compile(re.escape(name) + "-in-.*"), str)
    lines.group_by(lambda line: line).count(name="counts").changes().map_values(str).to(
        f"{name}-out"
    )
    given = {"state.dir": str(tmp_path), "commit.interval.ms": 50}
    given["pattern.refresh.interval.ms"] = 100

    async def ask(cluster: Cluster) -> None:
        await cluster.make(f"{name}-in-1")
        await cluster.write(f"{name}-in-1", "a", "b", "a")
        await cluster.read(f"{name}-out", lambda found: found == {"a": "2", "b": "1"})
        await cluster.make(f"{name}-in-2")
        await cluster.write(f"{name}-in-2", "b", "c")
        await cluster.write(f"{name}-in-1", "c")
        await cluster.read(f"{name}-out", lambda found: found == {"a": "2", "b": "2", "c": "2"})
        assert await app.query_async("counts", wait="10s").get("c") == 2

    cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
    await cluster.make(f"{name}-out")
    settings = {**given, "bootstrap.servers": cluster.servers}
    await beside(run_here(app.plan(), settings, app.running), ask(cluster))


async def test_the_app_goes_on_without_a_deleted_topic(
    runtime: Runtime, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    name = moldau_topic
    app = Streams(name)
    app.stream(re.compile(re.escape(name) + "-in-.*"), str).group_by(lambda line: line).count(
        name="counts"
    ).changes().map_values(str).to(f"{name}-out")
    given = {"state.dir": str(tmp_path), "commit.interval.ms": 50}
    # The worker notices the deletion, not the look for new topics.
    given |= {"pattern.refresh.interval.ms": 600_000, "consumer.metadata.max.age.ms": 200}

    async def ask(cluster: Cluster) -> None:
        await cluster.write(f"{name}-in-1", "a", "b")
        await cluster.write(f"{name}-in-2", "a")
        await cluster.read(f"{name}-out", lambda found: found == {"a": "2", "b": "1"})
        async with Admin(bootstrap_servers=cluster.servers) as admin:
            await admin.delete_topic(f"{name}-in-1")
        await cluster.make(f"{name}-in-3")
        await cluster.write(f"{name}-in-3", "c", "a")
        await cluster.write(f"{name}-in-2", "b")
        await cluster.read(f"{name}-out", lambda found: found == {"a": "3", "b": "2", "c": "1"})

    cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
    await cluster.make(f"{name}-out", f"{name}-in-1", f"{name}-in-2")
    settings = {**given, "bootstrap.servers": cluster.servers}
    await beside(run_here(app.plan(), settings, app.running), ask(cluster))
