"""What a shard says of its load, and which settings of its balance have no effect."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from moldau.broker.exposition.node import ObservedBroker
from moldau.broker.main.hot_shards import LedPartition, ShardLoad
from moldau.broker.main.shard_answers import LOAD, ShardAnswers
from moldau.broker.replication.traffic import REQUEST_BYTES
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.settings import broker_settings
from moldau.broker.settings.shards import balance_notices
from moldau.client import Admin, Consumer, NewTopic, Producer
from moldau.config import overrides
from moldau.testing import EmbeddedBroker
from tests.broker.exposition.scraped import broker_of

SENT_BYTES = 10_000


async def asked(answers: ShardAnswers, question: str) -> Any:
    return json.loads(b"".join([each async for each in answers.answer(question)]))


async def load_of(answers: ShardAnswers) -> tuple[ShardLoad, dict[str, LedPartition]]:
    load = ShardLoad(*await asked(answers, LOAD))
    led = [LedPartition(*each) for each in load.led]
    return load, {f"{each.topic}-{each.partition}": each for each in led}


@pytest.mark.real
def test_a_shard_says_which_partitions_cost_it_how_much() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as embedded:
            broker = broker_of(embedded)
            answers = ShardAnswers(broker.node.runtime.clock)
            assert await asked(answers, LOAD) is None, "it starts"
            answers.watch(ObservedBroker(broker))
            servers = embedded.bootstrap_servers
            async with Admin(bootstrap_servers=servers) as admin:
                await admin.create_topics([NewTopic("t", 3, 1)])
            async with Producer(bootstrap_servers=servers) as producer:
                await (await producer.send("t", bytes(SENT_BYTES), partition=1))
                await (await producer.send("t", b"small", partition=2))
            first, led = await load_of(answers)
            assert led.keys() == {"t-1", "t-2"}
            assert list(led) == ["t-1", "t-2"], "those that cost the most come first"
            one = led["t-1"]
            assert one.work == one.size_bytes + REQUEST_BYTES
            assert SENT_BYTES < one.size_bytes < SENT_BYTES + 200
            assert first.work == one.work + led["t-2"].work
            assert {*one.replicas, *one.isr} == {first.broker}
            assert (first.takes_replicas, first.is_moving) == (True, False)
            assert 0 < first.share < 1.5
            async with Consumer(
                bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest"
            ) as consumer:
                await consumer.subscribe(["t"])
                while not [each for each in await consumer.poll(1) if each.partition == 1]:
                    pass
                await consumer.commit()
            second, led = await load_of(answers)
            assert led["t-1"].work == one.size_bytes + REQUEST_BYTES, "what was read counts as much"
            assert any(each.startswith("__consumer_offsets-") for each in led)
            assert second.elapsed_s < 60
            third, led = await load_of(answers)
            assert "t-1" not in led
            assert third.elapsed_s < second.elapsed_s + 1

    asyncio.run(run())


NAME = "moldau.shards.balance"
NOTICES: dict[str, tuple[dict[str, str], bool, list[str]]] = {
    "none is given": ({}, False, []),
    "one shard": (
        {f"{NAME}.enable": "true", f"{NAME}.hot.percent": "70"},
        False,
        [f"{NAME}.enable", f"{NAME}.hot.percent"],
    ),
    "turned off": (
        {f"{NAME}.enable": "false", f"{NAME}.window.ms": "1000"},
        True,
        [f"{NAME}.window.ms"],
    ),
    "in force": ({f"{NAME}.copy.bytes.max": "0"}, True, []),
}


@pytest.mark.parametrize("case", NOTICES)
def test_a_setting_of_the_balance_that_has_no_effect_is_named(case: str) -> None:
    given, is_sharded, names = NOTICES[case]
    settings = broker_settings(standalone_layer("/data"), overrides(dict(given)))
    notices = list(balance_notices(settings, is_sharded=is_sharded))
    assert [each.split()[0] for each in notices] == names
    assert all("has no effect" in each for each in notices)
