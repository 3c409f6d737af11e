"""Expressions in a worker on a broker: two partitions, keys by an expression, exactly-once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams import Streams, col, count
from moldau.streams.engine.task import TaskSettings
from moldau.streams.running import make_task
from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.running import Cluster


class Order(msgspec.Struct):
    user: str
    amount: int


def test_expressions_group_and_aggregate_over_partitions(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
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

    async def scenario(runtime: Runtime) -> None:
        cluster = Cluster(moldau_broker.bootstrap_servers, runtime)
        await cluster.make(orders, out)
        make = partial(make_task, TaskSettings())
        async with cluster.worker(app.plan(), str(tmp_path), make_task=make):
            await cluster.write(orders, *values)
            await cluster.read(out, lambda seen: seen == {"ANN": "14 of 3"})

    run(scenario)
