"""Async functions and functions of batches."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.streams import (
    Context,
    Record,
    RecordFailed,
    Streams,
    StreamsError,
    TopologyError,
    dead_letter,
    retry,
    tumbling,
)
from moldau.streams.testing.driver import Driver


def values(driver: Driver, topic: str = "out") -> list[Any]:
    return [record.value for record in driver.read(topic, type=int)]


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_async_results_come_in_the_order_of_their_records(batch: int) -> None:
    async def slow(value: int) -> int:
        for _ in range(5 - value):
            await asyncio.sleep(0)
        return value * 10

    app = Streams("app")
    app.stream("in", int).map_values(slow).to("out")
    driver = app.test(batch=batch)

    driver.pipe_all("in", [(None, value, 0) for value in (1, 5, 2, 4)])

    assert values(driver) == [10, 50, 20, 40]
    assert driver.positions() == {"in": 4}


def test_each_stateless_step_may_be_async() -> None:
    async def is_even(value: int) -> bool:
        return value % 2 == 0

    async def twice(value: int) -> list[int]:
        return [value, value]

    async def pair(key: str, value: int) -> tuple[str, int]:
        return key + "!", value

    seen = []

    async def see(value: int) -> None:
        seen.append(value)

    app = Streams("app")
    stream = app.stream("in", int, key=str).filter(is_even).flat_map(twice).map(pair)
    stream.peek(see).select_key(is_even, type=bool).filter_not(is_even).to("odd")
    stream.to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 0), ("b", 2, 0)])

    assert [(record.key, record.value) for record in driver.read("out")] == [("b!", 2)] * 2
    assert seen == [2, 2]
    assert driver.read("odd") == []


async def inverse(value: int) -> int:
    return 60 // value


def test_an_async_failure_names_its_record() -> None:
    app = Streams("app")
    app.stream("in", int).filter(lambda value: value != 7).map_values(inverse).to("out")
    driver = app.test()

    with pytest.raises(RecordFailed, match=r"offset=2 operator=map_values\(inverse\)"):
        driver.pipe_all("in", [(None, 7, 0), (None, 1, 0), (None, 0, 0)])


def test_an_async_failure_may_be_sent_to_a_dead_letter_topic() -> None:
    app = Streams("app")
    app.stream("in", int).map_values(inverse, on_error=dead_letter("dead")).to("out")
    driver = app.test()

    driver.pipe_all("in", [(None, 1, 0), (None, 0, 0), (None, 2, 0)])

    assert values(driver) == [60, 30]
    assert values(driver, "dead") == [0]


def test_an_async_call_is_retried_after_its_pause() -> None:
    attempts = []

    async def flaky(value: int) -> int:
        attempts.append(value)
        if len(attempts) < 3:
            raise ConnectionError("not yet")
        return value

    app = Streams("app")
    app.stream("in", int).map_values(flaky, on_error=retry(2, backoff="1s")).to("out")
    driver = app.test()

    driver.pipe("in", 5)
    driver.advance(999)
    assert attempts == [5]
    driver.advance(1)
    assert attempts == [5, 5]
    assert values(driver) == []
    driver.advance(2000)

    assert values(driver) == [5]


def test_the_other_async_calls_of_a_batch_are_made_once() -> None:
    attempts = []

    async def flaky(value: int) -> int:
        attempts.append(value)
        if value == 2 and attempts.count(2) < 2:
            raise ConnectionError("not yet")
        return value

    app = Streams("app")
    app.stream("in", int).map_values(flaky, on_error=retry(3, backoff="1s")).to("out")
    driver = app.test()

    driver.pipe_all("in", [(None, value, 0) for value in (1, 2, 3)])
    driver.advance(1000)

    assert attempts == [1, 2, 3, 2]
    assert values(driver) == [1, 2, 3]


def test_a_batch_is_retried_after_its_pause() -> None:
    attempts = []

    def flaky(batch: list[int]) -> list[int]:
        attempts.append(list(batch))
        if len(attempts) < 3:
            raise ConnectionError("not yet")
        return batch

    app = Streams("app")
    policy = retry(2, backoff="1s", then="skip")
    app.stream("in", int).map_batch(flaky, on_error=policy).to("out")
    driver = app.test()

    driver.pipe("in", 5)
    assert attempts == [[5]]
    driver.advance(1000)
    driver.advance(1999)
    assert attempts == [[5], [5]]
    driver.advance(1)

    assert values(driver) == [5]


@pytest.mark.parametrize("times", [1, 2])
def test_after_its_retries_a_batch_goes_by_the_rest_of_its_policy(times: int) -> None:
    app = Streams("app", on_error=retry(times, backoff="1s", then=dead_letter("dead")))
    app.stream("in", int).map_batch(lambda batch: [6 // value for value in batch]).to("out")
    driver = app.test()

    driver.pipe_all("in", [(None, value, 0) for value in (1, 0, 2)])
    for _ in range(times):
        assert values(driver) == values(driver, "dead") == []
        driver.advance(10_000)

    assert values(driver) == [6, 3]
    assert values(driver, "dead") == [0]


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_a_function_takes_a_batch(batch: int) -> None:
    app = Streams("app")
    stream = app.stream("in", int)
    stream.map_batch(lambda batch: [value * 2 for value in batch], type=int).to("out")
    driver = app.test(batch=batch)

    driver.pipe_all("in", [(None, value, 0) for value in range(20)])

    assert values(driver) == [2 * value for value in range(20)]


def test_a_failing_batch_is_called_record_by_record() -> None:
    app = Streams("app")
    stream = app.stream("in", int)
    stream.map_batch(lambda batch: [6 // value for value in batch], on_error="skip").to("out")
    driver = app.test()

    driver.pipe_all("in", [(None, value, 0) for value in (1, 0, 2)])

    assert values(driver) == [6, 3]


def test_a_batch_has_a_result_for_each_record() -> None:
    app = Streams("app")
    app.stream("in", int).map_batch(lambda batch: batch[1:]).to("out")

    with pytest.raises(RecordFailed, match="returned 0 values for 1"):
        app.test().pipe("in", 1)


def test_a_batch_may_be_an_array() -> None:
    numpy = pytest.importorskip("numpy")
    app = Streams("app")
    app.stream("in", int).map_batch(lambda batch: numpy.array(batch) ** 2, type=int).to("out")
    driver = app.test()

    driver.pipe_all("in", [(None, 3, 0), (None, 4, 0)])

    assert values(driver) == [9, 16]


def test_a_table_before_an_async_step_emits_each_update() -> None:
    async def doubled(count: int) -> int:
        return 2 * count

    app = Streams("app")
    table = app.stream("in", int, key=str).group_by_key().count(name="n")
    table.changes().map_values(doubled).to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 0), ("a", 1, 0)])

    assert values(driver) == [2, 4]


def test_what_emits_by_the_clock_does_not_stand_before_an_async_step() -> None:
    app = Streams("app")
    group = app.stream("in", int, key=str).group_by_key()
    table = group.window(tumbling(10), emit="close", idle="1s").count(name="n")
    table.changes().map_values(inverse).to("out")

    with pytest.raises(TopologyError, match=r"put \.repartition"):
        app.plan()


async def awaited(*_: Any) -> Any:
    return None


@pytest.mark.parametrize(
    "build",
    [
        lambda stream, table: stream.branch(awaited),
        lambda stream, table: stream.flat_map_pairs(awaited),
        lambda stream, table: stream.map_batch(awaited),
        lambda stream, table: stream.join(table, awaited),
        lambda stream, table: stream.group_by_key().reduce(awaited, name="n"),
        lambda stream, table: stream.group_by_key().aggregate(0, awaited, name="n"),
        lambda stream, table: stream.group_by_key().sum(awaited, name="n"),
        lambda stream, table: stream.group_by_key().top_k(3, by=awaited, name="n"),
        lambda stream, table: stream.group_by_key().cogroup(awaited).aggregate(0, name="n"),
        lambda stream, table: table.map_values(awaited),
        lambda stream, table: table.filter(awaited),
        lambda stream, table: table.group_by(awaited),
        lambda stream, table: stream.to(awaited),
    ],
)
def test_an_async_function_is_rejected_where_nothing_awaits_it(build: Any) -> None:
    app = Streams("app")

    with pytest.raises(TopologyError, match="awaited is an async function"):
        build(app.stream("in", int, key=str), app.table("rows", int, key=str))


def test_an_operator_with_an_async_process_is_rejected() -> None:
    class Waits:
        def __init__(self, context: Context) -> None: ...

        async def process(self, record: Record) -> None: ...

    app = Streams("app")
    app.stream("in", int).process(Waits, name="waits").to("out")

    with pytest.raises(StreamsError, match="operator=waits: its process is an async function"):
        app.test().pipe("in", 1)
