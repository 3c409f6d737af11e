"""`/history` says what a node did in the last quarter of an hour, whoever asks and when."""

from __future__ import annotations

import asyncio
from time import process_time
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.broker.exposition.application import make_application
from moldau.broker.exposition.node import ObservedBroker
from moldau.broker.exposition.recent import TRAFFIC, Recent
from moldau.broker.replication.traffic import Traffic
from moldau.client import Admin, NewTopic, Producer
from moldau.metrics.ring import EVERY_MS, SPAN_MS
from moldau.runtime.real import RealClock
from moldau.testing import EmbeddedBroker
from tests.broker.exposition.scraped import broker_of, get, turn
from tests.broker.exposition.used_broker import RECORDS, with_a_used_broker

pytestmark = pytest.mark.real
START = 1_700_000_000_000 // EVERY_MS * EVERY_MS
TOPICS = 10_000
PART = 4
"""The part of a whole ring that is filled: a look costs as much for each sample."""


async def history(broker: EmbeddedBroker, recent: Recent, **query: str) -> dict[str, Any]:
    """The answer of `/history`, with a mapping of columns for each reading."""
    node = ObservedBroker(broker_of(broker))
    application = make_application(RealClock(), turn, lambda: node, recent)
    asked = "&".join(f"{name}={text}" for name, text in query.items())
    found: dict[str, Any] = (await get(application, f"/history?{asked}")).json()
    columns = ("at_ms", *found["columns"])
    found["readings"] = [dict(zip(columns, each, strict=True)) for each in found["readings"]]
    return found


@pytest.mark.parametrize(
    ("past_ms", "seconds"),
    [(0, 15.0), (1, 14.999), (EVERY_MS - 3_000, 3.0), (EVERY_MS - 1, 15.001)],
)
def test_a_sleep_that_ends_early_brings_no_second_sample(past_ms: int, seconds: float) -> None:
    clock: Any = SimpleNamespace(wall_ms=lambda: START + past_ms)
    assert Recent(clock, turn).seconds_to_next() == seconds


def test_rates_errors_and_lag_are_those_between_two_samples() -> None:
    async def check(broker: EmbeddedBroker) -> None:
        recent, node = Recent(RealClock(), turn), ObservedBroker(broker_of(broker))
        servers = broker.bootstrap_servers
        await recent.sample(node.observed(), START)
        async with Producer(bootstrap_servers=servers) as producer:
            for _ in range(30):
                await producer.send("orders", b"y" * 1000, partition=1)
            await producer.flush()
        broker_of(broker).node.replicas.traffic.of("orders").failed_produces += 15
        await recent.sample(node.observed(), START + EVERY_MS)
        await recent.sample(node.observed(), START + 2 * EVERY_MS)

        busy, idle = (await history(broker, recent, topic="orders"))["readings"]
        assert (busy["at_ms"], busy["messages_in"], busy["failed_produces"]) == (
            START + EVERY_MS,
            2.0,
            1.0,
        )
        assert 2_000 < busy["bytes_in"] < 2_600
        share = RECORDS - 1
        assert busy["lag"] == idle["lag"] == RECORDS - 3 + 30 + share + 30
        assert [idle[name] for name in TRAFFIC] == [0] * len(TRAFFIC)

        group = (await history(broker, recent, group="billing"))["readings"]
        assert [each["lag"] for each in group] == [4, 34, 34]
        whole = await history(broker, recent)
        assert (whole["node"], whole["cluster"]) == (1, broker_of(broker).node.cluster_id)
        assert [each["messages_in"] for each in whole["readings"]] == [2.0, 0.0]

    with_a_used_broker(check)


def test_a_lag_without_a_replica_is_null_and_a_topic_made_anew_counts_from_zero() -> None:
    async def check(broker: EmbeddedBroker) -> None:
        recent, node = Recent(RealClock(), turn), ObservedBroker(broker_of(broker))
        hosted = broker_of(broker).node.replicas._hosted
        await recent.sample(node.observed(), START)
        place = next(each for each in hosted if tuple(each) == ("orders", 1))
        taken = hosted.pop(place)
        await recent.sample(node.observed(), START + EVERY_MS)
        hosted[place] = taken
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.delete_topic("orders")
            await admin.create_topic(NewTopic("orders", 1))
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"y")
        await recent.sample(node.observed(), START + 2 * EVERY_MS)

        group = (await history(broker, recent, group="billing"))["readings"]
        assert group[0]["lag"] == 4
        assert group[1]["lag"] is None
        readings = (await history(broker, recent, topic="orders"))["readings"]
        assert readings[-1]["messages_in"] == pytest.approx(1000 / EVERY_MS)

    with_a_used_broker(check)


def test_a_look_costs_less_than_a_millisecond_with_ten_thousand_topics() -> None:
    traffic, readings = Traffic(), SPAN_MS // EVERY_MS // PART
    for number in range(TOPICS):
        traffic.of(f"topic-{number}").bytes_in = number
    node = SimpleNamespace(
        cluster_id="c",
        groups=SimpleNamespace(loaded=list),
        image=SimpleNamespace(topics=SimpleNamespace(by_name=str)),
        replicas=SimpleNamespace(traffic=traffic),
        shares=(),
    )
    observed: Any = SimpleNamespace(node=node, node_id=1)
    recent = Recent(RealClock(), turn)

    async def fill() -> None:
        for number in range(readings + 1):
            for busy in range(0, TOPICS, 4):
                traffic.of(f"topic-{busy}").bytes_in += 1
            await recent.sample(observed, START + number * EVERY_MS)

    asyncio.run(fill())
    began, rounds = process_time(), 200
    for number in range(rounds):
        found = recent.answer(observed, f"topic-{number * 4}", None)["readings"]
        assert (len(found), found[0][1]) == (readings, pytest.approx(1000 / EVERY_MS))
    assert (process_time() - began) / rounds < 0.001 / PART
