"""Operators that users write: stores, forwarding, timers."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from moldau.streams import (
    Context,
    Record,
    StateStore,
    Streams,
    StreamsError,
    TopologyError,
    count_window,
    dead_letter,
    tumbling,
)
from moldau.streams.engine.task import Task
from moldau.streams.state.backing import MemoryBacking


class Deduplicate:
    """Passes a value on once, and again after it was swept out."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.seen = context.store("seen")
        context.schedule("1m", self.sweep, by="wall")

    def process(self, record: Record) -> None:
        if record.key not in self.seen:
            self.seen.put(record.key, record.timestamp)
            self.context.forward(record.changed(value=record.value * 10))

    def sweep(self, now: int) -> None:
        for key, time in self.seen.items():
            if time + 60_000 <= now:
                self.seen.delete(key)


def test_a_store_outlives_a_restart_and_a_timer_sweeps_it() -> None:
    app = Streams("app")
    stream = app.stream("in", int, key=str)
    store = StateStore("seen", key=str, value=int)
    stream.process(Deduplicate, name="once", stores=[store], type=int).to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 0), ("a", 2, 1)])
    driver.restart(from_changelog=True)
    driver.pipe("in", 3, key="a", timestamp=2)
    driver.advance(60_000)
    driver.pipe("in", 4, key="a", timestamp=3)

    assert [record.value for record in driver.read("out")] == [10, 40]


def test_a_task_knows_until_the_commit_that_a_timer_of_the_wall_clock_was_called() -> None:
    app = Streams("app")
    store = StateStore("seen", key=str, value=int)
    stream = app.stream("in", int, key=str)
    stream.process(Deduplicate, name="once", stores=[store], type=int).to("out")
    (program,) = app.plan().programs
    task = Task(program, 0, {"seen": MemoryBacking()})

    task.punctuate(0)
    task.punctuate(59_999)
    assert not task.has_timer_fired()
    task.punctuate(60_000)
    assert task.has_timer_fired()
    task.flush()
    assert not task.has_timer_fired()


def test_a_timer_by_an_unknown_clock_is_refused_with_the_clocks_that_there_are() -> None:
    class ByClock:
        def __init__(self, context: Context) -> None:
            context.schedule("10s", print, by="clock")  # type: ignore[arg-type]

        def process(self, record: Record) -> None: ...

    app = Streams("app")
    app.stream("in", int, key=str).process(ByClock, name="ticks").to("out")
    said = 'operator=ticks: schedule: by=\'clock\' must be "stream" or "wall"'
    with pytest.raises(StreamsError, match=said):
        app.test().pipe("in", 1, key="a")


class Ticks:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.timer = context.schedule(10, self.tick)

    def process(self, record: Record) -> None:
        if record.value == "stop":
            self.timer.cancel()

    def tick(self, now: int) -> None:
        self.context.forward(Record(None, now, now))


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_stream_time_calls_once_for_a_jump(batch: int) -> None:
    app = Streams("app")
    app.stream("in", str).process(Ticks, type=int).to("out")
    driver = app.test(batch=batch)

    times = [3, 5, 9, 10, 35, 39, 40]
    driver.pipe_all("in", [(None, "go", time) for time in times] + [(None, "stop", 100)])
    driver.pipe("in", "go", timestamp=200)

    assert [record.value for record in driver.read("out")] == [3, 10, 35, 40]


def test_an_unknown_store_is_named() -> None:
    app = Streams("app")
    app.stream("in", int).process(Deduplicate).to("out")

    with pytest.raises(StreamsError, match=r"it has no store 'seen'.*stores="):
        app.test().pipe("in", 1, key="a")


def test_stores_need_a_name() -> None:
    app = Streams("app")

    with pytest.raises(TopologyError, match="give it a name"):
        app.stream("in", int).process(Deduplicate, stores=[StateStore("seen")])


class Adds:
    """Keeps the sum of each key; forwards it."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.sums = context.store("sums")

    def process(self, record: Record) -> None:
        self.sums[record.key] = self.sums.get(record.key, 0) + record.value
        self.context.forward(record.changed(value=self.sums[record.key]))


def test_two_operators_share_a_store() -> None:
    app = Streams("app")
    sums = StateStore("sums", key=str, value=int)
    app.stream("in", int, key=str).process(Adds, name="a", stores=[sums], type=int).to("out")
    app.stream("too", int, key=str).process(Adds, name="b", stores=[sums], type=int).to("out")
    (program,) = app.plan().programs
    assert program.copartitioned == (frozenset({"in", "too"}),)
    driver = app.test()

    driver.pipe("in", 1, key="a")
    driver.pipe("too", 2, key="a")

    assert [record.value for record in driver.read("out")] == [1, 3]
    assert driver.store("sums") == {"a": 3}


def test_a_shared_store_is_declared_once() -> None:
    app = Streams("app")
    stream = app.stream("in", int, key=str)
    stream.process(Adds, name="a", stores=[StateStore("sums", key=str, value=int)])
    with pytest.raises(TopologyError, match="'sums' was declared with other types"):
        stream.process(Adds, name="b", stores=[StateStore("sums", key=str, value=str)])
    stream.group_by_key().count(name="counts")
    with pytest.raises(TopologyError, match="'counts' is taken"):
        stream.process(Adds, name="c", stores=[StateStore("counts", key=str, value=int)])


class Compares:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.limits = context.store("limits")
        self.means = context.store("means")

    def process(self, record: Record) -> None:
        if record.value == "write":
            self.limits[record.key] = 5
        found = [self.limits.get(record.key), self.means.get(record.key), record.key in self.means]
        rows = [list(self.limits.items()), list(self.means.items())]
        self.context.forward(record.changed(value=[*found, *rows]))


def test_an_operator_reads_tables_and_may_not_write_them() -> None:
    app = Streams("app")
    limits = app.table("limits", int, key=str)
    means = app.stream("in", int, key=str).group_by_key().mean(name="means")
    asked = app.stream("asked", str, key=str)
    asked.process(Compares, name="compares", stores=[limits, means], type=list).to("out")
    driver = app.test()
    driver.pipe("limits", 7, key="a")
    driver.pipe_all("in", [("a", 1, 0), ("a", 2, 0)])

    driver.pipe("asked", "read", key="a")
    driver.pipe("asked", "read", key="b")

    rows = [[["a", 7]], [["a", 1.5]]]
    assert [each.value for each in driver.read("out")] == [
        [7, 1.5, True, *rows],
        [None, None, False, *rows],
    ]
    with pytest.raises(StreamsError, match=r"operator=compares.*store=limits: it is a table's"):
        driver.pipe("asked", "write", key="a")


def test_what_is_no_store_of_its_own_is_refused() -> None:
    app = Streams("app")
    table = app.table("rows", int, key=str)
    asked = app.stream("asked", str, key=str)
    given: list[tuple[Any, str]] = [
        ("rows", r"takes StateStores and tables, not 'rows'"),
        (table.filter(bool), r"has no key-value store of its own"),
        (asked.group_by_key().window(tumbling("1m")).count(name="w"), "no key-value store"),
        (asked.group_by_key().window(count_window(2)).count(name="n"), "no key-value store"),
        (asked.to_table(name="t", versioned="1d"), "no key-value store"),
    ]
    for wrong, said in given:
        with pytest.raises(TopologyError, match=said):
            asked.process(Compares, name="compares", stores=[wrong])


class Places:
    closed: ClassVar[list[int]] = []

    def __init__(self, context: Context) -> None:
        self.context = context
        context.schedule("1s", lambda now: self.tell(Record(None, None, now)), by="wall")

    def process(self, record: Record) -> None:
        self.tell(record)

    def tell(self, record: Record) -> None:
        at = self.context
        place = [at.topic, at.partition, at.offset, at.timestamp, [name for name, _ in at.headers]]
        at.forward(record.changed(value=place, headers=()))

    def close(self) -> None:
        self.closed.append(self.context.partition)


async def awaited(value: int) -> bool:
    await asyncio.sleep(0)
    return value < 9


@pytest.mark.parametrize("batch", [1, 7, 500])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_the_context_tells_where_the_record_stands(kind: str, batch: int) -> None:
    app = Streams("app")
    stream = app.stream("a", int).merge(app.stream("b", int)).filter(lambda value: value < 9)
    if kind == "async":
        stream = stream.filter(awaited)
    stream.process(Places, type=list).to("out")
    driver = app.test(batch=batch)
    driver.add("a", [(None, 0, 10), (None, 9, 20), (None, 0, 30)], headers=(("h", b""),))
    driver.add("b", [(None, 0, 5), (None, 0, 25)])
    driver.run()

    assert [each.value for each in driver.read("out")] == [
        ["b", 0, 0, 5, []],
        ["a", 0, 0, 10, ["h"]],
        ["b", 0, 1, 25, []],
        ["a", 0, 2, 30, ["h"]],
    ]
    driver.advance(1000)
    assert [each.value for each in driver.read("out")] == [[None, 0, None, None, []]]


def test_an_operator_is_closed_once_at_the_end() -> None:
    Places.closed.clear()
    app = Streams("app")
    app.stream("a", int).process(Places, type=list).to("out")
    driver = app.test()
    driver.close()
    assert Places.closed == [], "it was never made"
    driver.pipe("a", 1)
    driver.restart()
    assert Places.closed == [0]
    driver.pipe("a", 1)
    driver.close()
    driver.close()
    assert Places.closed == [0, 0]


def test_an_operator_asks_for_a_commit() -> None:
    class Asks:
        def __init__(self, context: Context) -> None:
            self.context = context

        def process(self, record: Record) -> None:
            if record.value == 2:
                self.context.commit()

    app = Streams("app")
    stream = app.stream("in", int, key=str)
    stream.process(Asks)
    stream.group_by_key().count(name="n").changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 0)], commit=False)
    assert driver.read("out") == []
    driver.pipe_all("in", [("a", 2, 0)], commit=False)
    assert [each.value for each in driver.read("out")] == [2]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"timestamp": None}, "timestamp=None"),
        ({"timestamp": 1.5}, "timestamp=1.5"),
        ({"timestamp": -1}, "timestamp=-1"),
        ({"timestamp": 2**63}, "timestamp=9223372036854775808"),
        ({"headers": 5}, "headers=5 are no pairs"),
        ({"headers": [("a", "text")]}, "no pair of a str and bytes"),
        ({"headers": [(b"a", b"b")]}, "no pair of a str and bytes"),
    ],
)
def test_a_record_that_cannot_be_forwarded_fails_by_the_policy(
    parts: dict[str, Any], reason: str
) -> None:
    class Changes:
        def __init__(self, context: Context) -> None:
            self.context = context

        def process(self, record: Record) -> None:
            self.context.forward(record.changed(**(parts if record.value else {})))

    app = Streams("app", on_error=dead_letter("failed"))
    app.stream("in", int, key=str).process(Changes).to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 1), ("b", 0, 2)], headers=[("trace", b"1")])

    assert [(each.key, each.headers) for each in driver.read("out")] == [("b", (("trace", b"1"),))]
    [failed] = driver.read("failed")
    message = dict(failed.headers)["moldau.error.message"]
    assert message is not None
    assert reason in message.decode()
