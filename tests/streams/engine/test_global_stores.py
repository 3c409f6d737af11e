"""Global stores: a user's operator makes the rows of a whole topic, also at a restore."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from moldau.streams import (
    Context,
    Record,
    RecordFailed,
    StateStore,
    Streams,
    StreamsError,
    TopologyError,
)
from moldau.streams.plan.text import explain_text, topology_text
from moldau.streams.spark.limits import refusals


class Totals:
    """Adds up the positive numbers of each key, and says where the last one was."""

    closed: ClassVar[list[str]] = []

    def __init__(self, context: Context) -> None:
        self.context = context
        self.totals = context.store("totals")

    def process(self, record: Record) -> None:
        context = self.context
        old = self.totals.get(record.key, [0])[0]
        place = f"{context.topic} {context.partition} {context.offset}"
        self.totals[record.key] = [old + record.value, place, len(record.headers)]
        if record.value < 0:
            raise ValueError(f"{record.value} is below 0")

    def close(self) -> None:
        self.closed.append(self.context.name)


TOTALS = StateStore("totals", key=str, value=list[int | str])


def made(on_error: str = "fail", processor: Any = Totals) -> Streams:
    """Each line is a key of the totals; it comes out with its total."""
    app = Streams("app")
    totals = app.global_store(
        "numbers", int, key=str, store=TOTALS, make=processor, on_error=on_error
    )
    joined = app.stream("lines", str).left_join(totals, lambda _, row: row, key=lambda line: line)
    joined.to("out")
    return app


def test_a_stream_looks_up_what_the_operator_has_made() -> None:
    driver = made().test()
    driver.pipe("lines", "a")
    driver.pipe("numbers", 3, key="a", headers=[("h", b"1")])
    driver.pipe("numbers", 4, key="a")
    driver.pipe("lines", "a")
    assert [each.value for each in driver.read("out")] == [None, [7, "numbers 0 1", 0]]
    assert driver.query("totals").get("a") == [7, "numbers 0 1", 0]
    assert driver.store("totals") == {"a": [7, "numbers 0 1", 0]}


@pytest.mark.parametrize("from_changelog", [False, True])
def test_a_restart_goes_on_and_an_empty_directory_runs_the_operator_again(
    from_changelog: bool,
) -> None:
    Totals.closed.clear()
    driver = made("skip").test()
    for value in (3, -5, 4):
        driver.pipe("numbers", value, key="a")
    driver.restart(from_changelog=from_changelog)
    assert Totals.closed[0] == "totals"
    assert driver.store("totals") == {"a": [7, "numbers 0 2", 0]}
    driver.pipe("numbers", 1, key="a")
    assert driver.store("totals") == {"a": [8, "numbers 0 3", 0]}


def test_a_record_that_fails_leaves_nothing_behind() -> None:
    driver = made("skip").test()
    driver.pipe("numbers", 3, key="a")
    driver.pipe("numbers", -5, key="a")
    driver.pipe_bytes("numbers", b"no number", key=b"a")
    assert driver.store("totals") == {"a": [3, "numbers 0 0", 0]}
    with pytest.raises(RecordFailed) as failed:
        made().test().pipe("numbers", -1, key="a")
    assert str(failed.value) == (
        "topic=numbers partition=0 offset=0 operator=totals: ValueError: -1 is below 0; every "
        'worker reads it: delete the key from the topic, or set on_error="skip" on '
        "global_store(...)"
    )


def test_all_partitions_come_into_one_store() -> None:
    driver = made().test(partitions={"numbers": 3, "lines": 2})
    for number, key in enumerate("abcdef"):
        driver.pipe("numbers", number, key=key)
    for key in "abcdef":
        driver.pipe("lines", key)
    assert sorted(each.value[0] for each in driver.read("out")) == [0, 1, 2, 3, 4, 5]


class Deletes:
    """Keeps keys without a value, and forgets those with one; a record without a key counts."""

    def __init__(self, context: Context) -> None:
        self.rows = context.store("totals")

    def process(self, record: Record) -> None:
        if record.key is None:
            self.rows["none"] = [self.rows.get("none", [0])[0] + 1]
        elif record.value is None:
            self.rows[record.key] = [0]
        else:
            self.rows.delete(record.key)


def test_the_operator_gets_nulls() -> None:
    driver = made(processor=Deletes).test()
    for key, value in (("a", None), (None, 1), (None, 2), ("b", None), ("a", 1)):
        driver.pipe("numbers", value, key=key)
    assert driver.store("totals") == {"b": [0], "none": [2]}


class Priced:
    """Passes on a line with the total of its key, and all keys."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.totals = context.store("totals")

    def process(self, record: Record) -> None:
        found = [key for key, _ in self.totals.items()]
        self.context.forward(record.changed(value=[self.totals.get(record.value, [0])[0], found]))
        if record.value == "write":
            self.totals["x"] = [1]


def test_an_operator_of_a_stream_reads_global_stores_and_tables() -> None:
    app = Streams("app")
    totals = app.global_store("numbers", int, key=str, store=TOTALS, make=Totals)
    names = app.global_table("names", str, key=str)
    lines = app.stream("lines", str)
    lines.process(Priced, name="priced", stores=[totals, names]).to("out")
    driver = app.test()
    for key in "ba":
        driver.pipe("numbers", 3, key=key)
    driver.pipe("lines", "a")
    assert driver.read("out")[0].value == [3, ["a", "b"]]
    assert "looks up totals, names" in explain_text(app.plan())
    with pytest.raises(RecordFailed, match=r"store=totals: it is a table's"):
        driver.pipe("lines", "write")


@pytest.mark.parametrize("what", ["forward", "schedule"])
def test_the_operator_forwards_nothing_and_has_no_timers(what: str) -> None:
    class Wrong:
        def __init__(self, context: Context) -> None:
            self.context = context

        def process(self, record: Record) -> None:
            if what == "forward":
                self.context.forward(record)
            self.context.schedule("1s", print)

    driver = made(processor=Wrong).test()
    with pytest.raises(StreamsError, match=r"operator=totals: the processor of a global store"):
        driver.pipe("numbers", 1, key="a")


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        (StateStore("totals", ttl="1s"), "it has a ttl"),
        (StateStore("totals", in_memory=True), "it is in memory"),
        (StateStore("totals", version=2), "it has a version"),
        (StateStore.versions("totals", retention="1s"), "it keeps values by time"),
        ("totals", "must be a StateStore"),
    ],
)
def test_stores_that_cannot_be_global(store: Any, problem: str) -> None:
    with pytest.raises(TopologyError, match=problem):
        Streams("app").global_store("numbers", store=store, make=Totals)


def test_the_name_of_a_store_is_taken_once() -> None:
    app = made()
    with pytest.raises(TopologyError, match="'totals' is taken"):
        app.stream("more", int, key=str).process(Totals, name="t", stores=[TOTALS])


def test_plans_show_the_operator() -> None:
    plan = made().plan()
    assert "  global store totals reads numbers through Totals\n" in topology_text(plan)
    assert "global store totals reads numbers through Totals, all of it" in explain_text(plan)
    assert "global_store(...)" in refusals(plan)["totals"]
    assert plan.source_topics() == ("lines", "numbers")


def test_an_upgrade_takes_the_new_operator_and_the_old_rows() -> None:
    class Twice(Totals):
        def process(self, record: Record) -> None:
            super().process(record.changed(value=2 * record.value))

    driver = made().test()
    driver.pipe("numbers", 3, key="a")
    driver.upgrade(made(processor=Twice))
    driver.pipe("numbers", 3, key="a")
    assert driver.store("totals") == {"a": [9, "numbers 0 1", 0]}
