"""A consumer's metrics: Kafka's names, and numbers that add up."""

from __future__ import annotations

import asyncio
from math import isnan

import pytest

from moldau.client.consumer.metrics import CLIENT, FETCHES, GROUP
from moldau.metrics import render_prometheus
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill, read_all
from tests.client.group.simulated_consumer import OPTIONS
from tests.client.world import ClientWorld

Metrics = dict[str, dict[str, float]]


@pytest.mark.parametrize("kind", list(OPTIONS))
def test_what_is_read_committed_and_shared_is_counted(kind: str) -> None:
    async def main(runtime: Runtime) -> tuple[Metrics, Metrics]:
        async with consumer(
            runtime, group_id="g", auto_offset_reset="earliest", **OPTIONS[kind]
        ) as reader:
            before = reader.metrics()
            await reader.subscribe("t")
            await read_all(reader, 100)
            await reader.commit()
            await reader.poll(0.0)
            await asyncio.sleep(3)  # a handler at work
            await reader.poll(1.0, max_records=5)
            return before, reader.metrics()

    with ClientWorld() as world:
        logs = world.cluster.add_topic("t", [1, 2])
        for log in logs:
            fill(log, 50)
        world.cluster.delay_s = 0.01
        before, after = world.run_client(main)
        size = sum(len(batch) for log in logs for batch in log.batches)
    assert all(isnan(each) or each in (0, -1, 1) for each in before[FETCHES].values())
    fetches, group, client = after[FETCHES], after[GROUP], after[CLIENT]
    assert fetches["records-consumed-total"] == 100
    assert fetches["bytes-consumed-total"] == size
    assert after[f"{FETCHES}.t"]["records-consumed-total"] == 100
    assert after[f"{FETCHES}.t-1"] == {"records-lag": 0, "records-lead": 50}
    assert fetches["records-lag-max"] == 0
    assert fetches["records-consumed-rate"] > 0
    assert fetches["fetch-total"] > 2
    assert 10 <= fetches["fetch-latency-avg"] <= fetches["fetch-latency-max"] < 600
    assert 0 < fetches["fetch-size-avg"] <= fetches["fetch-size-max"] <= size
    assert (group["assigned-partitions"], group["commit-total"]) == (2, 1)
    assert 10 <= group["commit-latency-avg"] < 100
    assert group["rebalance-total"] == 1
    assert 0 < group["rebalance-latency-avg"] < 10_000
    assert 0 < group["last-rebalance-seconds-ago"] < 60
    assert client["time-between-poll-max"] >= 3000
    assert 0 < client["poll-idle-ratio-avg"] < 1
    assert 0.9 < client["last-poll-seconds-ago"] < 1.1
    assert client["connection-count"] >= 2


def test_the_names_are_kafkas_and_exporters_have_them() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0)])
            await reader.seek_to_beginning()
            await reader.poll(5.0, max_records=4)
            found = reader.metrics()
            assert found[FETCHES]["records-lag-max"] == 6
            assert found[GROUP]["assigned-partitions"] == 1
            text = render_prometheus(reader.registry.snapshot())
            assert "kafka_consumer_records_lag_max 6" in text

    with ClientWorld() as world:
        fill(world.cluster.add_topic("t", [1])[0], 10)
        world.run_client(main)


def test_time_is_counted_by_polls() -> None:
    async def main(runtime: Runtime) -> None:
        async with consumer(runtime) as reader:
            reader.assign([("t", 0)])
            for _ in range(3):
                await reader.poll(1.0)
                await asyncio.sleep(3)
            found = reader.metrics()[CLIENT]
            assert found["time-between-poll-avg"] == pytest.approx(4000)
            assert found["poll-idle-ratio-avg"] == pytest.approx(0.25)
            assert found["last-poll-seconds-ago"] == pytest.approx(4)

    with ClientWorld() as world:
        world.cluster.add_topic("t", [1])
        world.run_client(main)
