"""Steps behind async functions and functions of batches: their policies hold, for their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from moldau.streams import RecordFailed, Stream, Streams, dead_letter, retry, tumbling
from moldau.streams.plan.policies import Policy
from moldau.streams.rocks import StoreCorrupted
from moldau.streams.testing.driver import Driver


async def same(value: Any) -> Any:
    return value


def behind(kind: str, stream: Stream[Any, int]) -> Stream[Any, Any]:
    """Return the stream behind a step that takes a batch."""
    if kind == "async":
        return stream.map_values(same)
    return stream.map_batch(lambda batch: batch, type=int)


def inverse(value: Any) -> Any:
    return 60 // value


def inverting(kind: str, batch: int, on_error: Policy | str | None) -> Driver:
    """Return a driver in which 0 fails behind a step that takes a batch."""
    app = Streams("app")
    behind(kind, app.stream("in", int)).map_values(inverse, on_error=on_error).to("out")
    return app.test(batch=batch)


def pipe(driver: Driver, *values: int) -> None:
    driver.pipe_all("in", [(None, value, 0) for value in values])


def values(driver: Driver, topic: str = "out") -> list[Any]:
    return [record.value for record in driver.read(topic, type=int)]


KINDS = pytest.mark.parametrize("kind", ["async", "map_batch"])
BATCHES = pytest.mark.parametrize("batch", [1, 2, 500])


@KINDS
@BATCHES
def test_a_record_that_fails_behind_is_skipped_by_policy(kind: str, batch: int) -> None:
    driver = inverting(kind, batch, "skip")

    pipe(driver, 1, 0, 2, 0, 3)

    assert values(driver) == [60, 30, 20]
    assert driver.counters()["skipped"] == 2
    assert driver.positions() == {"in": 5}


@KINDS
@BATCHES
def test_a_dead_letter_from_behind_names_its_own_record(kind: str, batch: int) -> None:
    driver = inverting(kind, batch, dead_letter("dead"))

    pipe(driver, 1, 0, 2, 3)

    assert values(driver) == [60, 30, 20]
    ((_, value, _, headers),) = driver.read_bytes("dead")
    assert value == b"0"
    facts = dict(headers)
    assert facts["moldau.error.topic"] == b"in"
    assert facts["moldau.error.partition"] == b"0"
    assert facts["moldau.error.offset"] == b"1"
    assert facts["moldau.error.operator"] == b"map_values(inverse)"
    assert facts["moldau.error.exception"] == b"ZeroDivisionError"


@KINDS
@BATCHES
def test_without_a_policy_the_app_ends_with_the_record_that_failed_behind(
    kind: str, batch: int
) -> None:
    driver = inverting(kind, batch, None)

    with pytest.raises(RecordFailed, match=r"offset=2 operator=map_values\(inverse\)") as failed:
        pipe(driver, 1, 2, 0, 3)
    assert "\n" not in str(failed.value)


@KINDS
def test_the_policy_of_the_app_holds_behind(kind: str) -> None:
    app = Streams("app", on_error="skip")
    behind(kind, app.stream("in", int)).map_values(inverse).to("out")
    driver = app.test()

    pipe(driver, 1, 0, 2)

    assert values(driver) == [60, 30]


class Flaky:
    """Fails so many times at 2."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.calls: list[int] = []

    def __call__(self, value: int) -> int:
        self.calls.append(value)
        if value == 2 and self.left:
            self.left -= 1
            raise ConnectionError("not yet")
        return value


@KINDS
@BATCHES
def test_what_fails_behind_is_tried_again_in_order_without_another_call(
    kind: str, batch: int
) -> None:
    called: list[int] = []
    flaky = Flaky(2)

    async def looked_up(value: int) -> int:
        called.append(value)
        return value

    def all_looked_up(batch: list[int]) -> list[int]:
        called.extend(batch)
        return batch

    app = Streams("app")
    stream = app.stream("in", int)
    found: Stream[Any, Any]
    if kind == "async":
        found = stream.map_values(looked_up)
    else:
        found = stream.map_batch(all_looked_up, type=int)
    found.map_values(flaky, on_error=retry(2, backoff="1s", then="skip")).to("out")
    driver = app.test(batch=batch)

    pipe(driver, 1, 2, 3)
    assert values(driver) == [1]
    assert driver.positions() == ({"in": 1} if batch == 1 else {}), "a batch counts as a whole"
    driver.advance(999)
    assert flaky.calls == [1, 2]
    driver.advance(1)
    driver.advance(1999)
    assert flaky.calls == [1, 2, 2]
    driver.advance(1)

    assert flaky.calls == [1, 2, 2, 2, 3]
    assert values(driver) == [2, 3]
    assert called == [1, 2, 3]
    assert driver.positions() == {"in": 3}


@BATCHES
def test_the_attempts_behind_are_counted_for_each_record_and_apart_from_its_calls(
    batch: int,
) -> None:
    again = retry(1, backoff="1s", then=dead_letter("dead"))
    failed: list[tuple[str, int]] = []

    def fails_once(what: str, value: int) -> int:
        if (what, value) not in failed:
            failed.append((what, value))
            raise ConnectionError("not yet")
        return value

    async def looked_up(value: int) -> int:
        return fails_once("call", value)

    def inverted(value: Any) -> int:
        return 60 // fails_once("behind", value)

    app = Streams("app", on_error=again)
    app.stream("in", int).map_values(looked_up).map_values(inverted).to("out")
    driver = app.test(batch=batch)

    pipe(driver, 1, 0, 2)
    for _ in range(8):
        driver.advance(1000)

    assert values(driver) == [60, 30]
    assert values(driver, "dead") == [0]


def test_a_call_that_fails_behind_another_one_names_its_own_record() -> None:
    async def inverted(value: Any) -> Any:
        return inverse(value)

    app = Streams("app")
    first = app.stream("in", int).map_values(same)
    first.map_values(inverted, on_error=dead_letter("dead")).map_values(inverse).to("out")
    driver = app.test()

    pipe(driver, 1, 0, 2, 3)

    ((_, value, _, headers),) = driver.read_bytes("dead")
    assert (value, dict(headers)["moldau.error.offset"]) == (b"0", b"1")


Make = Callable[[int], Any]


@pytest.mark.parametrize("make", [lambda value: iter([1, value, 3]), lambda value: [1, value, 3]])
def test_all_items_of_an_async_flat_map_are_passed_on_again(make: Make) -> None:
    async def items(value: int) -> Iterator[int]:
        found: Iterator[int] = make(value)
        return found

    app = Streams("app")
    found = app.stream("in", int).flat_map(items, type=int)
    found.map_values(Flaky(1), on_error=retry(1, backoff="1s")).to("out")
    driver = app.test()

    pipe(driver, 2)
    driver.advance(1000)

    assert values(driver) == [1, 2, 3]


def test_an_async_map_without_a_pair_fails_by_its_own_policy() -> None:
    async def pair(key: str, value: int) -> tuple[str, int]:
        return cast("tuple[str, int]", (key, value) if value else None)

    app = Streams("app")
    app.stream("in", int).map(pair, on_error=dead_letter("dead")).to("out")
    driver = app.test()

    pipe(driver, 1, 0, 2)

    assert values(driver) == [1, 2]
    assert values(driver, "dead") == [0]


@KINDS
def test_a_batch_is_not_done_before_an_emit_in_front_has_been_tried_again(kind: str) -> None:
    app = Streams("app")
    windows = app.stream("in", int, key=str).group_by_key().window(tumbling("1s"), emit="close")
    flaky = windows.count(name="n").changes().map_values(Flaky(1), on_error=retry(1, backoff="1s"))
    behind(kind, flaky).map_values(inverse).to("out")
    driver = app.test()

    driver.pipe_all("in", [(key, 1, at) for key, at in (("b", 0), ("b", 0), ("c", 1000))])
    driver.advance(999)
    assert values(driver) == []
    assert (driver.positions(), driver.changelogs) == ({}, {})

    driver.advance(1)
    assert values(driver) == [30]
    assert driver.positions() == {"in": 3}
    assert driver.changelogs


def test_a_call_for_an_emit_that_was_tried_again_names_the_last_record() -> None:
    async def failing(value: int) -> int:
        raise ValueError(value)

    app = Streams("app")
    windows = app.stream("in", int, key=str).group_by_key().window(tumbling("1s"), emit="close")
    flaky = windows.count(name="n").changes().map_values(Flaky(1), on_error=retry(1, backoff="1s"))
    flaky.map_values(failing, on_error=dead_letter("dead")).to("out")
    driver = app.test(batch=2)

    driver.pipe_all("in", [(key, 1, at) for key, at in (("b", 0), ("b", 0), ("c", 1000))])
    driver.advance(1000)

    ((_, _, _, headers),) = driver.read_bytes("dead")
    assert dict(headers)["moldau.error.offset"] == b"2"


@KINDS
def test_what_a_damaged_table_has_stopped_is_passed_on_when_it_is_repaired(kind: str) -> None:
    is_damaged = True

    def looked_up(value: int) -> int:
        if value == 2 and is_damaged:
            raise StoreCorrupted("damaged", path="/global")
        return value

    app = Streams("app")
    behind(kind, app.stream("in", int)).map_values(looked_up).to("out")
    driver = app.test()

    with pytest.raises(StoreCorrupted):
        pipe(driver, 1, 2, 3)
    assert driver.positions() == {}
    is_damaged = False
    driver.advance(0)

    assert values(driver) == [1, 2, 3]
    assert driver.positions() == {"in": 3}
