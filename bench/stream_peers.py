"""The programs of `bench.streams` in other libraries.

    python -m bench.stream_peers quix count HOST:PORT NAME STATE IN OUT

Each reads the topic IN from its beginning, and writes to OUT under the record's key: the result of
its stateless operators for a record, or how often its key has come. It runs until it is killed.
Each program imports only its own library: the libraries are installed in a separate venv.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Run:
    """The arguments of a program."""

    kind: str
    bootstrap: str
    name: str
    state: str
    topic: str
    out: str


def _is_paid(order: dict[str, Any]) -> bool:
    return bool(order["amount"] > 0)


def _taxed(order: dict[str, Any]) -> dict[str, Any]:
    order["amount"] *= 1.19
    return order


def _is_human(order: dict[str, Any]) -> bool:
    return bool(order["kind"] != "bot")


def _shouted(order: dict[str, Any]) -> dict[str, Any]:
    order["country"] = order["country"].upper()
    return order


def _priced(order: dict[str, Any]) -> dict[str, Any]:
    return {"user": order["user"], "amount": order["amount"], "country": order["country"]}


def quix(run: Run) -> None:
    """Quix Streams: its state is RocksDB with changelog topics."""
    from quixstreams import Application

    app = Application(
        run.bootstrap,
        consumer_group=run.name,
        auto_offset_reset="earliest",
        commit_interval=1.0,
        state_dir=run.state,
        loglevel="WARNING",
    )
    topic = app.topic(run.topic, value_deserializer="json", key_deserializer="str")
    out = app.topic(run.out, value_serializer="json", key_serializer="str")
    orders = app.dataframe(topic)
    if run.kind == "stateless":
        orders = orders.filter(_is_paid).apply(_taxed).filter(_is_human)
        orders = orders.apply(_shouted).apply(_priced)
    elif run.kind == "count":
        orders = orders.apply(_counted, stateful=True)
    else:
        orders = orders.tumbling_window(60_000, grace_ms=5_000).count().current()
    orders.to_topic(out)
    app.run()


def _counted(_: Any, state: Any) -> int:
    count: int = state.get("count", 0) + 1
    state.set("count", count)
    return count


def bytewax(run: Run) -> None:
    """Bytewax, with its state in memory."""
    from bytewax import operators as op
    from bytewax.connectors.kafka import KafkaSinkMessage
    from bytewax.connectors.kafka import operators as kafka
    from bytewax.dataflow import Dataflow
    from bytewax.run import cli_main

    flow = Dataflow("bench")
    read = kafka.input("in", flow, brokers=[run.bootstrap], topics=[run.topic])
    orders = op.map("parse", read.oks, lambda each: (each.key.decode(), json.loads(each.value)))
    if run.kind == "stateless":
        orders = op.filter("paid", orders, lambda pair: _is_paid(pair[1]))
        orders = op.map_value("taxed", orders, _taxed)
        orders = op.filter("human", orders, lambda pair: _is_human(pair[1]))
        orders = op.map_value("shouted", orders, _shouted)
        found = op.map_value("priced", orders, _priced)
    else:
        found = op.stateful_map("count", orders, lambda count, _: ((count or 0) + 1,) * 2)
    sent = op.map(
        "encode",
        found,
        lambda pair: KafkaSinkMessage(pair[0].encode(), json.dumps(pair[1]).encode()),
    )
    kafka.output("out", sent, brokers=[run.bootstrap], topic=run.out)
    cli_main(flow)


def faust(run: Run) -> None:
    """Faust, with its table in memory and a changelog topic."""
    import faust as library

    app = library.App(
        run.name,
        broker=f"kafka://{run.bootstrap}",
        datadir=run.state,
        topic_partitions=1,
        topic_replication_factor=1,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
        broker_commit_interval=1.0,
        stream_wait_empty=False,
    )
    topic = app.topic(run.topic, key_type=str, value_type=None, value_serializer="json")
    out = app.topic(run.out, key_type=str, value_type=None, value_serializer="json")
    counts = app.Table("counts", default=int)

    async def price(orders: Any) -> None:
        async for key, order in orders.items():
            if _is_paid(order) and _is_human(_taxed(order)):
                await out.send(key=key, value=_priced(_shouted(order)))

    async def count(orders: Any) -> None:
        async for key, _ in orders.items():
            counts[key] += 1
            await out.send(key=key, value=counts[key])

    app.agent(topic)(price if run.kind == "stateless" else count)
    library.Worker(app, loglevel="error").execute_from_commandline()


def pathway(run: Run) -> None:
    """Pathway, with its state in memory."""
    import pathway as pw

    schema = pw.schema_from_types(user=str, amount=float, kind=str, country=str, item=int, note=str)
    settings = {
        "bootstrap.servers": run.bootstrap,
        "group.id": run.name,
        "auto.offset.reset": "earliest",
    }
    orders = pw.io.kafka.read(settings, topic=run.topic, format="json", schema=schema)
    if run.kind == "stateless":
        paid = orders.filter(orders.amount > 0)
        taxed = paid.with_columns(amount=paid.amount * 1.19)
        human = taxed.filter(taxed.kind != "bot")
        shouted = human.with_columns(country=human.country.str.upper())
        found = shouted.select(shouted.user, shouted.amount, shouted.country)
    else:
        found = orders.groupby(orders.user).reduce(orders.user, count=pw.reducers.count())
    pw.io.kafka.write(found, settings, run.out, format="json", key=found.user)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


PEERS: dict[str, Callable[[Run], None]] = {
    "quix": quix,
    "bytewax": bytewax,
    "faust": faust,
    "pathway": pathway,
}

if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    sys.argv[1:] = []
    PEERS[name](Run(*rest))
