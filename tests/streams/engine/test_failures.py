"""A record that fails: the message says where, and the policy decides what becomes of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from moldau.streams import (
    Context,
    Record,
    RecordFailed,
    Stream,
    Streams,
    TopologyError,
    count_window,
    dead_letter,
    retry,
    session,
    sliding,
    tumbling,
)
from moldau.streams.problems import OperatorFailed, StateError
from moldau.streams.testing.driver import Driver


def test_the_message_names_topic_partition_offset_and_operator() -> None:
    app = Streams("app")
    app.stream("in", int).map_values(lambda value: 1 // value).to("out")
    driver = app.test()

    with pytest.raises(RecordFailed) as failed:
        driver.pipe_all("in", [(None, 1, 0), (None, 0, 0), (None, 1, 0)])

    text = str(failed.value)
    assert "topic=in partition=0 offset=1 operator=map_values(lambda:" in text
    assert "ZeroDivisionError" in text
    assert "dead_letter" in text
    assert "\n" not in text


def test_records_before_a_failure_are_done_and_the_position_stands_at_it() -> None:
    app = Streams("app")
    app.stream("in", int).map_values(lambda value: 1 // value).to("out")
    driver = app.test(batch=3)

    with pytest.raises(RecordFailed):
        driver.pipe_all("in", [(None, 1, 0), (None, 1, 0), (None, 0, 0)])

    assert driver.positions() == {"in": 2}


def test_a_record_that_cannot_be_decoded_is_skipped_by_policy() -> None:
    app = Streams("app", on_error="skip")
    app.stream("in", int).to("out")
    driver = app.test()

    driver.pipe_bytes("in", b"5")
    driver.pipe_bytes("in", b"poison")
    driver.pipe_bytes("in", b"6")

    assert [record.value for record in driver.read("out")] == [5, 6]


def test_a_dead_letter_has_the_bytes_and_the_reason() -> None:
    app = Streams("app")
    app.stream("in", int, on_error=dead_letter("dead")).to("out")
    driver = app.test()

    driver.pipe_bytes("in", b"poison", key=b"k")

    ((key, value, _, headers),) = driver.read_bytes("dead")
    assert (key, value) == (b"k", b"poison")
    assert dict(headers)["moldau.error.offset"] == b"0"
    assert dict(headers)["moldau.error.operator"] == b"in"


def test_what_is_skipped_goes_to_the_topic_of_all_dead_letters_with_the_headers_of_kafka() -> None:
    app = Streams("app", on_error="skip")
    numbers = app.stream("in", int)
    numbers.map_values(lambda value: 2 // value, on_error=dead_letter("own")).to("other")
    numbers.map_values(lambda value: 3 // value, on_error=retry(1, then="skip")).to("third")
    app.stream("poisoned", int).to("out")
    driver = app.test(dead_letters="dead")
    driver.pipe("in", 1, key=b"k", timestamp=7)
    driver.pipe("in", 0, key=b"k", timestamp=7, headers=[("own", b"x")])
    driver.advance(1_000)
    driver.pipe_bytes("poisoned", b"poison")
    assert driver.counters() == {"skipped": 0, "dead-lettered": 3}
    ((key, value, timestamp, headers),) = driver.read_bytes("own")
    assert (key, value, timestamp) == (b"k", b"0", 7)
    kafka = [(name, found) for name, found in headers if name.startswith("__streams")]
    assert headers[0] == ("own", b"x")
    assert [name.removeprefix("__streams.errors.") for name, _ in kafka] == [
        "exception", "message", "stacktrace", "topic", "partition", "offset",
    ]  # fmt: skip
    facts = dict(kafka)
    stack = facts.pop("__streams.errors.stacktrace")
    assert stack is not None
    assert b"2 // value" in stack
    assert list(facts.values()) == [
        b"ZeroDivisionError", b"integer division or modulo by zero", b"in", b"0", b"1",
    ]  # fmt: skip
    by_retry, poisoned = (dict(headers) for *_, headers in driver.read_bytes("dead"))
    assert by_retry["__streams.errors.offset"] == b"1"
    assert poisoned["__streams.errors.topic"] == poisoned["moldau.error.topic"] == b"poisoned"


def test_with_the_topic_an_app_that_fails_fails_and_a_timer_that_fails_is_skipped() -> None:
    strict = Streams("strict")
    strict.stream("in", int).to("out")
    with pytest.raises(RecordFailed):
        strict.test(dead_letters="dead").pipe_bytes("in", b"poison")

    class Broken:
        def __init__(self, context: Context) -> None:
            context.schedule("1s", lambda now: 1 // 0, by="wall")

        def process(self, record: Record) -> None: ...

    app = Streams("app", on_error="skip")
    app.stream("in", int).process(Broken, name="broken")
    driver = app.test(dead_letters="dead")
    driver.pipe("in", 1)
    driver.advance(1_000)
    assert driver.counters()["skipped"] == 1
    assert driver.read_bytes("dead") == []


def flaky(failures: int) -> tuple[Driver, list[int]]:
    calls: list[int] = []

    def shaky(value: int) -> int:
        calls.append(value)
        if len(calls) <= failures:
            raise ConnectionError("not yet")
        return value

    app = Streams("app")
    stream = app.stream("in", int)
    stream.map_values(shaky, on_error=retry(2, backoff="1s", then="skip")).to("out")
    return app.test(), calls


def test_a_retry_waits_twice_as_long_each_time() -> None:
    driver, calls = flaky(2)
    driver.pipe_all("in", [(None, 1, 0), (None, 2, 0)])
    assert calls == [1]

    driver.advance(1000)
    assert calls == [1, 1]
    driver.advance(1999)
    assert calls == [1, 1]
    driver.advance(1)

    assert calls == [1, 1, 1, 2]
    assert [record.value for record in driver.read("out")] == [1, 2]


def test_after_the_last_retry_the_record_is_skipped() -> None:
    driver, calls = flaky(3)

    driver.pipe_all("in", [(None, 1, 0), (None, 2, 0)])
    driver.advance(1000)
    driver.advance(2000)

    assert calls == [1, 1, 1, 2]
    assert [record.value for record in driver.read("out")] == [2]


def test_a_failure_at_a_commit_names_its_operator() -> None:
    app = Streams("app")
    table = app.stream("in", int, key=str).group_by_key().count(name="n")
    table.changes().map_values(lambda count: 1 // (count - 1)).to("out")
    driver = app.test()

    with pytest.raises(OperatorFailed, match=r"app=app partition=0 operator=map_values\(lambda:"):
        driver.pipe("in", 1, key="a")


def test_a_failure_at_a_commit_is_skipped_by_policy_and_the_others_go_on() -> None:
    app = Streams("app")
    table = app.stream("in", int, key=str).group_by_key().count(name="n")
    table.changes().map_values(lambda count: 1 // (count - 1), on_error="skip").to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 0), ("b", 1, 0), ("b", 1, 0)])

    assert [record.key for record in driver.read("out")] == ["b"]


def test_late_and_skipped_records_are_counted() -> None:
    app = Streams("app")
    group = app.stream("in", int, key=str, on_error="skip").group_by_key()
    group.window(tumbling(10)).count(name="n")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 50), ("a", 1, 3)])
    driver.pipe_bytes("in", b"poison", key=b"a", timestamp=60)

    assert driver.counters() == {"skipped": 1, "dead-lettered": 0, "late n": 1}


class Strict:
    """An operator that takes positive numbers only."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def process(self, record: Record) -> None:
        positive(record.value)
        self._context.forward(record)


def positive(value: int, *_: object) -> int:
    if value < 0:
        raise ValueError("below 0")
    return value


Build = Callable[[Streams, "Stream[str, int]"], "Stream[Any, Any]"]


def _cogroup(app: Streams, numbers: Stream[str, int]) -> Stream[Any, Any]:
    grouped = numbers.group_by_key().cogroup(lambda total, value: total + positive(value))
    return grouped.aggregate(0, name="n", on_error="skip").changes()


def _global(app: Streams, numbers: Stream[str, int]) -> Stream[Any, Any]:
    rows = app.global_table("rows", int, key=str)
    return numbers.left_join(rows, lambda left, right: positive(left), on_error="skip")


def _foreign_key(app: Streams, numbers: Stream[str, int]) -> Stream[Any, Any]:
    rows = app.table("rows", int, key=str)
    table = numbers.to_table(name="t")
    on = {"on": lambda value: str(positive(value))}
    return table.left_join(rows, lambda left, _: left, **on, name="j", on_error="skip").changes()


FAILING: dict[str, Build] = {
    "process": lambda app, numbers: numbers.process(Strict, name="strict", on_error="skip"),
    "branch": lambda app, numbers: numbers.branch(
        lambda value: positive(value) >= 0, on_error="skip"
    )[0],
    "aggregate": lambda app, numbers: (
        numbers.group_by_key()
        .aggregate(0, lambda total, value: total + positive(value), name="n", on_error="skip")
        .changes()
    ),
    "windowed": lambda app, numbers: (
        numbers.group_by_key()
        .window(session("1m"))
        .sum(positive, name="n", on_error="skip")
        .changes()
    ),
    "cogroup": _cogroup,
    "of a table": lambda app, numbers: (
        numbers.to_table(name="t")
        .group_by(lambda key, value: ("all", value))
        .sum(positive, name="n", on_error="skip")
        .changes()
    ),
    "stream-stream": lambda app, numbers: numbers.join(
        numbers, positive, within="1s", name="j", on_error="skip"
    ),
    "outer": lambda app, numbers: numbers.outer_join(
        numbers, positive, within="1s", name="j", on_error="skip"
    ),
    "stream-table": lambda app, numbers: numbers.left_join(
        app.table("rows", int, key=str), positive, on_error="skip"
    ),
    "stream-global": _global,
    "table-table": lambda app, numbers: (
        numbers.to_table(name="t")
        .left_join(app.table("rows", int, key=str), positive, on_error="skip")
        .changes()
    ),
    "foreign key": _foreign_key,
}


@pytest.mark.parametrize("name", FAILING)
def test_each_operator_has_a_policy_of_its_own(name: str) -> None:
    app = Streams("app", emit="every")
    FAILING[name](app, app.stream("in", int, key=str)).to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 0), ("b", -1, 0), ("c", 2, 0)])

    assert [record.value for record in driver.read("out")][-1] in (2, 3)
    assert driver.counters()["skipped"] >= 1


@pytest.mark.parametrize(
    "build",
    [
        lambda stream: stream.group_by_key().count(name="n", retian="1h"),
        lambda stream: stream.group_by_key().window(sliding("1s")).count(name="n", emits="close"),
        lambda stream: stream.to_table(name="n", verison="1h"),
        lambda stream: stream.join(stream, withn="1s"),
    ],
)
def test_an_option_that_does_not_exist_is_rejected(build: Any) -> None:
    with pytest.raises(TopologyError, match=r"it takes no \w+=\.\.\.; it takes "):
        build(Streams("app").stream("in", int, key=str))


KEYLESS: dict[str, Build] = {
    "count": lambda app, numbers: numbers.group_by_key().count(name="n").changes(),
    "tumbling": lambda app, numbers: (
        numbers.group_by_key().window(tumbling("1s")).count(name="n").changes()
    ),
    "session": lambda app, numbers: (
        numbers.group_by_key().window(session("1s")).count(name="n").changes()
    ),
    "sliding": lambda app, numbers: (
        numbers.group_by_key().window(sliding("1s")).count(name="n").changes()
    ),
    "records": lambda app, numbers: (
        numbers.group_by_key().window(count_window(2)).count(name="n").changes()
    ),
    "table": lambda app, numbers: numbers.to_table(name="n").changes(),
    "n-repartition": lambda app, numbers: (
        numbers.select_key(lambda key, _: key).group_by_key().count(name="n").changes()
    ),
    "stream-stream": lambda app, numbers: numbers.join(
        app.stream("others", int, key=str), within="1s", name="n"
    ),
    "stream-table": lambda app, numbers: numbers.join(app.table("rows", int, key=str), name="n"),
    "versioned": lambda app, numbers: numbers.join(
        app.table("rows", int, key=str, versioned="1h"), grace="1s", name="n"
    ),
}


@pytest.mark.parametrize("name", KEYLESS)
def test_records_without_the_key_that_an_operator_needs_are_counted(name: str) -> None:
    app = Streams("app", emit="every")
    KEYLESS[name](app, app.stream("in", int, key=str)).to("out")
    driver = app.test()

    driver.pipe_all("in", [(None, 1, 0), ("a", None, 0), (None, 1, 0)])

    found = {what: count for what, count in driver.counters().items() if count}
    step = name if name.endswith("-repartition") else "n"
    assert found == {f"keyless {step}": 2}


def test_a_value_that_its_store_cannot_keep_is_told_in_one_line() -> None:
    app = Streams("app")
    size: Any = len
    app.stream("in", str, key=str).group_by_key().reduce(lambda _, new: size(new), name="last")
    driver = app.test()
    driver.pipe("in", "one", key="a")

    with pytest.raises(StateError, match="store=last: a value cannot be kept as str: expected str"):
        driver.pipe("in", "two", key="a")


@pytest.mark.parametrize(
    ("to", "reason"),
    [
        ((lambda _: 5, None), "must be a str, not 5"),
        ((lambda _: "a b", None), "'a b' is no name of a topic"),
        (("out", lambda *_: "one"), "partitioner= returned 'one'"),
        (("out", lambda *_: -1), "partitioner= returned -1"),
    ],
)
def test_a_record_without_a_place_to_go_fails_by_the_policy(to: Any, reason: str) -> None:
    app = Streams("app")
    stream = app.stream("in", int, key=str)
    topic, partitioner = to
    if partitioner is None:
        stream.to(topic)
    else:
        stream.to(topic, partitioner=partitioner)

    with pytest.raises(RecordFailed, match=re.escape(reason)):
        app.test().pipe("in", 1, key="a")
