"""Operators of users and expressions in a worker: commits that they ask for, groups, their end."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from moldau.runtime import Runtime
from moldau.streams import Context, Record, StateStore, Streams, col, count
from moldau.streams.engine.task import TaskSettings
from moldau.streams.running import make_task
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster


async def test_a_commit_that_is_asked_for_comes_before_its_interval_and_the_end_closes(
    runtime: Runtime, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
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
    cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
    await cluster.make(lines, out)
    make = partial(make_task, TaskSettings())
    async with cluster.worker(app.plan(), str(tmp_path), make_task=make, settings=settings):
        await cluster.write(lines, "a", "b", "a")
        await cluster.read(out, lambda seen: seen == {"a": "2", "b": "1"})
    assert sorted(closed) == [0, 1]


async def test_what_a_timer_stores_is_committed_without_a_record(
    runtime: Runtime, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    lines, out = f"{moldau_topic}-lines", f"{moldau_topic}-out"

    class Beats:
        def __init__(self, context: Context) -> None:
            self.context = context
            self.timer = context.schedule("10ms", self.beat, by="wall")

        def beat(self, now_ms: int) -> None:
            self.context.forward(Record(f"beat {self.context.partition}", "", now_ms))
            self.context.commit()
            self.timer.cancel()

        def process(self, record: Record) -> None: ...

    app = Streams(moldau_topic)
    beats = app.stream(lines, str, key=str).process(Beats, type=str)
    # The same keys, so nothing is sent before the commit, which the count waits for.
    beats.group_by_key().count(name="beats").changes().map_values(str).to(out)
    cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
    await cluster.make(lines, out)
    make = partial(make_task, TaskSettings())
    async with cluster.worker(app.plan(), str(tmp_path), make_task=make):
        await cluster.read(out, lambda seen: seen == {"beat 0": "1", "beat 1": "1"})


class Order(msgspec.Struct):
    user: str
    amount: int


async def test_expressions_group_and_aggregate_over_partitions(
    runtime: Runtime, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    orders, out = f"{moldau_topic}-orders", f"{moldau_topic}-out"
    app = Streams(moldau_topic)
    kept = (
        app.stream(orders, Order).filter(col("amount") > 0).with_columns(amount=col("amount") * 2)
    )
    grouped: Any = kept.group_by(col("user").upper())
    totals = grouped.agg(name="totals", total=col("amount").sum(), n=count())
    totals.changes().map_values(lambda row: f"{row.total} of {row.n}").to(out)
    values = [msgspec.json.encode(Order("ann", each)).decode() for each in (1, 2, -5, 4)]
    cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
    await cluster.make(orders, out)
    make = partial(make_task, TaskSettings())
    async with cluster.worker(app.plan(), str(tmp_path), make_task=make):
        await cluster.write(orders, *values)
        await cluster.read(out, lambda seen: seen == {"ANN": "14 of 3"})
