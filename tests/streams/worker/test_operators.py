"""Operators of users in a worker: a commit that they ask for, and their end."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams import Context, Record, StateStore, Streams
from moldau.streams.engine.task import TaskSettings
from moldau.streams.running import make_task
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster


def test_a_commit_that_is_asked_for_comes_before_its_interval_and_the_end_closes(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    lines, out = f"{moldau_topic}-lines", f"{moldau_topic}-out"
    closed = []

    class Asks:
        def __init__(self, context: Context) -> None:
            self.context = context

        def process(self, record: Record) -> None:
            assert self.context.topic == f"{moldau_topic}-words-repartition"
            self.context.commit()

        def close(self) -> None:
            closed.append(self.context.partition)

    app = Streams(moldau_topic)
    words = app.stream(lines, str).select_key(lambda value: value)
    words.process(Asks, name="words", stores=[StateStore("none")])
    words.group_by_key().count(name="n").changes().map_values(str).to(out)
    # In a transaction the words would come to their counts only after a commit.
    settings = {"commit.interval.ms": 600_000, "processing.guarantee": "at_least_once"}

    async def scenario(runtime: Runtime) -> None:
        cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
        await cluster.make(lines, out)
        make = partial(make_task, TaskSettings())
        async with cluster.worker(app.plan(), str(tmp_path), make_task=make, settings=settings):
            await cluster.write(lines, "a", "b", "a")
            await cluster.read(out, lambda seen: seen == {"a": "2", "b": "1"})
        assert sorted(closed) == [0, 1]

    run(scenario)
