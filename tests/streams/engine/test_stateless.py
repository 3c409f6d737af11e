"""Operators without state, one by one and fused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.streams import RecordFailed, Stream, Streams
from moldau.streams.testing.driver import Driver


def piped(
    build: object, values: list[tuple[str | None, int | None]]
) -> list[tuple[object, object]]:
    app = Streams("app")
    assert callable(build)
    build(app.stream("in", int, key=str))
    driver = app.test()
    driver.pipe_all("in", [(key, value, 0) for key, value in values])
    return [tuple(record) for record in driver.read("out", type=int)]


def test_map_makes_key_and_value() -> None:
    def build(stream: Stream[str, int]) -> None:
        stream.map(lambda key, value: (key + "!", value + 1)).to("out")

    assert piped(build, [("a", 1)]) == [("a!", 2)]


def test_map_values_may_take_the_key() -> None:
    def build(stream: Stream[str, int]) -> None:
        stream.map_values(lambda key, value: len(key) + value).to("out")

    assert piped(build, [("abc", 1)]) == [("abc", 4)]


def test_filters_keep_and_drop() -> None:
    def build(stream: Stream[str, int]) -> None:
        stream.filter(lambda value: value > 1).filter_not(lambda value: value > 2).to("out")

    assert piped(build, [("a", 1), ("b", 2), ("c", 3)]) == [("b", 2)]


def test_flat_map_pairs_makes_records() -> None:
    def parts(key: str, value: int) -> Iterator[tuple[str, int]]:
        for index in range(value):
            yield f"{key}{index}", index

    def build(stream: Stream[str, int]) -> None:
        stream.flat_map_pairs(parts).to("out")

    assert piped(build, [("a", 2), ("b", 0), ("c", 1)]) == [("a0", 0), ("a1", 1), ("c0", 0)]


def test_a_branch_sends_each_record_one_way() -> None:
    def build(stream: Stream[str, int]) -> None:
        low, high, rest = stream.branch(lambda value: value < 10, lambda value: value > 90)
        low.map_values(lambda value: -value).to("out")
        high.to("out")
        rest.map_values(lambda _: 0).to("out")

    assert piped(build, [("a", 1), ("b", 99), ("c", 50)]) == [("a", -1), ("b", 99), ("c", 0)]


def test_merged_streams_are_one() -> None:
    def build(stream: Stream[str, int]) -> None:
        doubled = stream.map_values(lambda value: 2 * value)
        stream.merge(doubled).to("out")

    both = piped(build, [("a", 1), ("b", 2)])

    assert sorted(both, key=repr) == [("a", 1), ("a", 2), ("b", 2), ("b", 4)]


def test_peek_sees_each_record_and_changes_none() -> None:
    seen: list[int] = []

    def build(stream: Stream[str, int]) -> None:
        stream.peek(seen.append).to("out")

    assert piped(build, [("a", 1), ("b", 2)]) == [("a", 1), ("b", 2)]
    assert seen == [1, 2]


def test_headers_and_times_pass_through() -> None:
    app = Streams("app")
    app.stream("in", str).map_values(str.upper).to("out")
    driver = app.test()

    driver.pipe("in", "a", timestamp=1)
    driver.pipe("in", "b", timestamp=2, headers=[("h", b"1")])

    assert [(record.timestamp, list(record.headers)) for record in driver.read("out")] == [
        (1, []),
        (2, [("h", b"1")]),
    ]


def test_a_sink_may_choose_its_topic_and_partition() -> None:
    app = Streams("app")
    app.stream("in", str).to(lambda value: f"to-{value}", partitioner=lambda value: len(value))
    driver: Driver = app.test()

    driver.pipe_all("in", [(None, "a", 0), (None, "b", 0)])

    assert [record.value for record in driver.read("to-b", type=str)] == ["b"]
    assert [record.value for record in driver.read("to-a", type=str)] == ["a"]


def test_deeply_nested_blocks_are_continued_in_another_function() -> None:
    app = Streams("app")
    stream = app.stream("in", int)
    for _ in range(60):
        stream = stream.flat_map(lambda value: [value + 1], type=int)
    stream.to("out")
    driver = app.test()

    driver.pipe("in", 0)

    assert [record.value for record in driver.read("out")] == [60]


def test_a_timestamp_function_chooses_the_time_and_a_negative_one_drops_the_record() -> None:
    app = Streams("app")
    app.stream("in", int, timestamp=lambda value, time: value - 5).to("out")
    driver = app.test()

    driver.pipe_all("in", [(None, 4, 100), (None, 9, 100)])

    assert [(record.value, record.timestamp) for record in driver.read("out")] == [(9, 4)]
    assert [count for what, count in driver.counters().items() if "untimed" in what] == [1]


@pytest.mark.parametrize("inputs", [1, 2])
def test_a_record_without_a_time_fails_by_the_policy_of_its_source(inputs: int) -> None:
    def app(on_error: str) -> Streams:
        app = Streams("app")
        stream = app.stream("in", int, on_error=on_error)
        for number in range(1, inputs):
            stream = stream.merge(app.stream(f"in-{number}", int))
        stream.to("out")
        return app

    with pytest.raises(
        RecordFailed, match=r"topic=in partition=0 offset=0 operator=in.*the time -1.*timestamp="
    ):
        app("fail").test().pipe("in", 1, timestamp=-1)

    driver = app("skip").test()
    driver.pipe_all("in", [(None, 1, -1), (None, 2, 5)])
    assert [record.value for record in driver.read("out")] == [2]


@pytest.mark.parametrize("batch", [1, 7])
def test_a_time_that_is_no_int_is_the_records_failure(batch: int) -> None:
    app = Streams("app")
    seconds: Any = lambda value, time: time / 1000  # noqa: E731
    app.stream("in", int, timestamp=seconds).to("out")

    with pytest.raises(
        RecordFailed,
        match=r"topic=in partition=0 offset=0 operator=in.*milliseconds since 1970 as an int",
    ):
        app.test(batch=batch).pipe("in", 1, timestamp=5)
