"""Operators that users write: stores, forwarding, timers."""

from __future__ import annotations

import pytest

from moldau.streams import Context, Record, StateStore, Streams, StreamsError, TopologyError


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
