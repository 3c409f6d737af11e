"""Operators of users behind tables: `process` sees changes, `process_values` makes rows."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.streams import (
    Context,
    Record,
    StateStore,
    Streams,
    StreamsError,
    Table,
    TopologyError,
    dead_letter,
    tumbling,
)
from moldau.streams.plan.drawing import draw_svg
from moldau.streams.plan.text import explain_text
from moldau.streams.spark.limits import refusals
from moldau.streams.testing.driver import Driver


class Differences:
    """Passes on by how much a row has changed, and keeps how often it did."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.times = context.store("times")

    def process(self, record: Record) -> None:
        self.times[record.key] = self.times.get(record.key, 0) + 1
        by = (record.value or 0) - (record.old or 0)
        self.context.forward(record.changed(value=by))


def differences(**options: Any) -> Driver:
    app = Streams("app")
    store = StateStore("times", key=str, value=int)
    table = app.table("in", int, key=str)
    table.process(Differences, name="by", stores=[store], type=int, **options).to("out")
    return app.test()


def test_process_sees_the_old_and_the_new_value_and_keeps_state() -> None:
    driver = differences()
    for value in (5, 7, None, 2):
        driver.pipe("in", value, key="a")
    driver.restart(from_changelog=True)
    driver.pipe("in", 3, key="b")
    assert [tuple(each) for each in driver.read("out")] == [
        ("a", 5),
        ("a", 2),
        ("a", -7),
        ("a", 2),
        ("b", 3),
    ]
    assert driver.store("times") == {"a": 4, "b": 1}


def test_an_aggregate_shows_what_it_emitted_before() -> None:
    app = Streams("app")
    counts = app.stream("in", str, key=str).group_by_key().count(name="counts")
    store = StateStore("times", key=str, value=int)
    counts.process(Differences, name="by", stores=[store], type=int).to("out")
    driver = app.test()
    driver.pipe_all("in", [("a", "x", 0)] * 3)
    driver.pipe_all("in", [("a", "x", 0)] * 2)
    assert [each.value for each in driver.read("out")] == [3, 2]


class ByParity:
    def __init__(self, context: Context) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        assert isinstance(record.value, int)
        self.context.forward(record.changed(key="even" if record.value % 2 == 0 else "odd"))


def test_a_new_key_leads_through_a_repartition_topic() -> None:
    app = Streams("app")
    made = app.table("in", int, key=str).process(ByParity, key=str, type=int)
    made.group_by_key().count(name="counts").changes().to("out")
    plan = app.plan()
    assert [topic.name for topic in plan.repartitions] == ["app-counts-repartition"]
    driver = app.test(partitions=2)
    for number, key in enumerate("abcde"):
        driver.pipe("in", number, key=key)
    assert driver.store("counts") == {"even": 3, "odd": 2}


class Above:
    """Makes rows of the values above the limit of the key, with how often they came."""

    def __init__(self, context: Context) -> None:
        self.limits, self.times = context.store("limits"), context.store("times")

    def process(self, record: Record) -> str | None:
        if record.value == 13:
            self.times[record.key] = 1000
            raise ValueError("13")
        if record.value is None:
            return None
        self.times[record.key] = self.times.get(record.key, 0) + 1
        limit = self.limits.get(record.key, 0)
        return f"{record.value} {self.times[record.key]}" if record.value > limit else None


def above(app: Streams, **options: Any) -> Table[Any, Any]:
    limits = app.table("limits", int, key=str)
    stores: list[StateStore | Table[Any, Any]] = [StateStore("times", key=str, value=int), limits]
    table = app.table("in", int, key=str)
    return table.process_values(Above, name="above", stores=stores, type=str, **options)


@pytest.mark.parametrize("emit", ["every", "commit"])
def test_process_values_makes_a_table_with_a_store(emit: str) -> None:
    app = Streams("app")
    above(app, emit=emit).join(app.table("names", str, key=str)).changes().to("out")
    driver = app.test()
    driver.pipe("limits", 5, key="a")
    driver.pipe("names", "Ada", key="a")
    for value in (6, 4, 8):
        driver.pipe("in", value, key="a")
    assert driver.query("above").get("a") == "8 3"
    assert driver.query("above", wait="1s", stale=True, at_least={0: 1}).get("a") == "8 3"
    driver.restart(from_changelog=True)
    driver.pipe("in", 9, key="a")
    assert driver.query("above").get("a") == "9 4"
    driver.pipe("in", None, key="a")
    found = [each.value for each in driver.read("out")]
    assert found == [("6 1", "Ada"), None, ("8 3", "Ada"), ("9 4", "Ada"), None]
    assert driver.store("above") == {}


@pytest.mark.parametrize("step", [{"on_error": dead_letter("dead")}, {}])
def test_a_row_that_fails_is_deleted_or_left_out(step: dict[str, Any]) -> None:
    app = Streams("app", on_error=dead_letter("dead"))
    above(app, **step)
    driver = app.test()
    for value in (6, 13):
        driver.pipe("in", value, key="a")
    # By the app's policy the record is left out as a whole: the table before has the row still.
    assert driver.store("above") == ({} if step else {"a": "6 1"})
    assert driver.store("times") == {"a": 1}
    assert [each.value for each in driver.read("dead", type=int)] == [13]
    driver.pipe("in", 7, key="a")
    assert driver.store("above") == {"a": "7 2"}


def test_a_row_of_an_aggregate_that_fails_is_deleted() -> None:
    app = Streams("app", on_error="skip")
    counts = app.stream("in", str, key=str).group_by_key().count(name="counts")
    store = StateStore("times", key=str, value=int)

    class Failing:
        def __init__(self, context: Context) -> None:
            self.times = context.store("times")

        def process(self, record: Record) -> int:
            self.times[record.key] = record.value
            if record.value == 2:
                raise ValueError("2")
            value: int = record.value
            return value

    counts.process_values(Failing, name="made", stores=[store], type=int)
    driver = app.test()
    seen = []
    for _ in range(3):
        driver.pipe("in", "x", key="a")
        seen.append((driver.store("made"), driver.store("times")))
    assert seen == [({"a": 1}, {"a": 1}), ({}, {"a": 1}), ({"a": 3}, {"a": 3})]


def test_a_versioned_table_passes_late_updates_to_process_alone() -> None:
    class Copied:
        def __init__(self, context: Context) -> None:
            self.context = context

        def process(self, record: Record) -> None:
            self.context.forward(record)

    class Kept:
        def __init__(self, context: Context) -> None:
            self.context = context

        def process(self, record: Record) -> Any:
            return record.value

    app = Streams("app")
    table = app.table("in", int, key=str, versioned="1h")
    table.process(Copied, type=int).to("out")
    table.process_values(Kept, name="kept", type=int)
    driver = app.test()
    driver.pipe("in", 2, key="a", timestamp=2000)
    driver.pipe("in", 1, key="a", timestamp=1000)
    assert [each.value for each in driver.read("out")] == [2, 1]
    assert driver.store("kept") == {"a": 2}


class Forwards:
    def __init__(self, context: Context) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        self.context.forward(record)


def test_process_values_forwards_nothing() -> None:
    app = Streams("app")
    app.table("in", int, key=str).process_values(Forwards, name="made")
    with pytest.raises(StreamsError, match=r"made-process: process_values forwards nothing"):
        app.test().pipe("in", 1, key="a")


def test_windows_of_a_table_can_be_processed() -> None:
    app = Streams("app")
    counts = app.stream("in", str, key=str).group_by_key().window(tumbling("1s")).count(name="by")
    counts.process(Forwards, type=int).map_values(str).to("out")
    driver = app.test()
    driver.pipe("in", "x", key="a", timestamp=1500)
    [found] = driver.read("out")
    assert (found.key.key, found.key.start, found.value) == ("a", 1000, "1")


def test_explain_draw_and_spark_know_what_is_processed() -> None:
    app = Streams("app")
    above(app)
    text = explain_text(app.plan())
    assert "above-process: process of changes, which makes rows looks up limits" in text
    assert list(refusals(app.plan())) == ["above-process"]
    assert 'class="lookup"' in draw_svg(app.plan())
    assert "above: to_table emits the last update of each key at a commit" in text


def test_stores_need_a_name_and_streams_have_no_rows() -> None:
    app = Streams("app")
    table = app.table("in", int, key=str)
    with pytest.raises(TopologyError, match="give it a name"):
        table.process(Forwards, stores=[StateStore("times")])
    with pytest.raises(TopologyError, match=r"process_values: it is for tables"):
        app.stream("other").process_values  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(TopologyError, match=r"transformValues: its name is \.process_values"):
        table.transformValues  # type: ignore[attr-defined]  # noqa: B018
