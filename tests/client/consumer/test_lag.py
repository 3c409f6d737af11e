"""Lag: what lies between what the user was given and the end of what he may read."""

from __future__ import annotations

import pytest

from moldau.client import Consumer
from moldau.client.consumer.progress import ReadProgress
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import consumer, fill
from tests.client.world import ClientWorld


async def _begun(reader: Consumer) -> None:
    reader.assign([("t", 0)])
    assert reader.lag(("t", 0)) is None
    await reader.seek_to_beginning()


def test_in_async_for_only_what_was_given_out_counts() -> None:
    async def main(runtime: Runtime) -> list[int | None]:
        lags: list[int | None] = []
        async with consumer(runtime) as reader:
            await _begun(reader)
            async for record in reader:
                lags.append(reader.lag(("t", 0)))
                if record.offset == 19:
                    return lags
        return []

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        assert world.run_client(main) == list(range(19, -1, -1))


def test_with_read_committed_the_end_is_the_last_stable_offset() -> None:
    async def main(runtime: Runtime) -> dict[str, int | None]:
        found = {}
        for level in ("read_committed", "read_uncommitted"):
            async with consumer(runtime, isolation_level=level) as reader:
                await _begun(reader)
                await reader.poll(5.0, max_records=10)
                found[level] = reader.lag(("t", 0))
        return found

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 50)
        log.open_since = 30
        assert world.run_client(main) == {"read_committed": 20, "read_uncommitted": 40}


def test_the_lag_of_a_partition_costs_no_look_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An app with a hundred tasks asks for each of them in each turn."""

    def lags(_: ReadProgress) -> None:
        raise AssertionError("all partitions were looked at")

    async def main(runtime: Runtime) -> list[int | None]:
        async with consumer(runtime) as reader:
            await _begun(reader)
            await reader.poll(5.0, max_records=5)
            before = reader.lag(("t", 0))
            monkeypatch.setattr(ReadProgress, "lags", lags)
            return [before, reader.lag(("t", 0))]

    with ClientWorld() as world:
        (log,) = world.cluster.add_topic("t", [1])
        fill(log, 20)
        assert world.run_client(main) == [15, 15]
