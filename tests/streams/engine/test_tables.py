"""Tables: views, lookups and joins of tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Streams
from moldau.streams.testing.driver import Driver

Updates = list[tuple[str, str, int | None, int]]

updates: st.SearchStrategy[Updates] = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from(["a", "b"]),
        st.none() | st.integers(0, 9),
        st.integers(0, 9),
    ),
    max_size=30,
)


def rows(driver: Driver, topic: str = "out") -> list[tuple[Any, Any, int]]:
    return [(record.key, record.value, record.timestamp) for record in driver.read(topic)]


def test_a_table_emits_each_update_and_deletion() -> None:
    app = Streams("app")
    app.table("in", int, key=str).changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 5), ("a", None, 6), ("b", None, 7), (None, 1, 8)])

    assert rows(driver) == [("a", 1, 5), ("a", None, 6), ("b", None, 7)]
    assert driver.store("in") == {}


def test_a_filtered_table_deletes_a_row_that_stops_matching_and_no_other() -> None:
    app = Streams("app")
    app.table("in", int, key=str).filter(lambda value: value > 1).changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 2, 1), ("a", 1, 2), ("b", 0, 3)])

    assert rows(driver) == [("a", 2, 1), ("a", None, 2)]


def test_a_stream_looks_up_a_table_as_it_is_then() -> None:
    app = Streams("app")
    users = app.table("users", str, key=str)
    clicks = app.stream("clicks", int, key=str)
    clicks.join(users, lambda click, user: [click, user]).to("inner")
    clicks.left_join(users, lambda key, click, user: [key, click, user]).to("left")
    driver = app.test()

    driver.pipe("clicks", 1, key="a")
    driver.pipe("users", "Ann", key="a")
    driver.pipe("clicks", 2, key="a", timestamp=9)
    driver.pipe("clicks", 3)

    assert rows(driver, "inner") == [("a", [2, "Ann"], 9)]
    assert [row[1] for row in rows(driver, "left")] == [
        ["a", 1, None],
        ["a", 2, "Ann"],
        [None, 3, None],
    ]


def test_a_lookup_sees_a_mapped_and_filtered_view() -> None:
    app = Streams("app")
    view = app.table("users", int, key=str).filter(lambda age: age > 17).map_values(lambda a: -a)
    app.stream("clicks", int, key=str).left_join(view).to("out")
    driver = app.test()
    driver.pipe_all("users", [("a", 30, 0), ("b", 3, 0)])

    driver.pipe_all("clicks", [("a", 1, 1), ("b", 2, 1)])

    assert [row[1] for row in rows(driver)] == [(1, -30), (2, None)]


def test_a_row_of_a_global_table_is_found_however_its_key_was_written() -> None:
    app = Streams("app")
    names = app.global_table("names", str, key=tuple[int, str])
    orders = app.stream("orders", int, key=str)
    orders.join(names, lambda order, name: f"{order} {name}", key=lambda n: (n, "n")).to("out")
    driver = app.test()
    driver.pipe_bytes("names", b"one", key=b'[1, "n"]')

    driver.pipe("orders", 1, key="a")
    driver.pipe_bytes("names", None, key=b'[1,  "n"]')
    driver.pipe("orders", 1, key="b")

    assert [each.value for each in driver.read("out")] == ["1 one"]


def test_a_global_table_is_looked_up_by_any_key() -> None:
    app = Streams("app")
    countries = app.global_table("countries", str, key=str)
    stream = app.stream("in", key=str)
    stream.join(countries, lambda v, name: name, key=lambda v: v["country"]).to("out")
    stream.left_join(countries, lambda v, name: name, key=lambda v: v["country"]).to("left")
    driver = app.test()
    driver.pipe_all("countries", [("cz", "Bohemia", 0), ("cz", "Czechia", 0), ("x", "?", 0)])
    driver.pipe("countries", None, key="x")

    driver.pipe_all("in", [(None, {"country": "cz"}, 3), ("k", {"country": "x"}, 4)])

    assert rows(driver) == [(None, "Czechia", 3)]
    assert rows(driver, "left") == [(None, "Czechia", 3), ("k", None, 4)]


def result(kind: str, left: int | None, right: int | None) -> list[int | None] | None:
    if left is None and (right is None or kind != "outer"):
        return None
    return None if right is None and kind == "inner" else [left, right]


@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
@given(given_updates=updates, batch=st.sampled_from([1, 7, 500]), cut=st.integers(0, 30))
def test_the_changes_of_joined_tables_fold_to_the_join_of_their_rows(
    kind: str, given_updates: Updates, batch: int, cut: int
) -> None:
    app = Streams("app")
    left, right = app.table("left", int, key=str), app.table("right", int, key=str)
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    table = join(right, lambda one, two: [one, two])
    table.changes().to("out")
    driver = app.test(batch=batch, cache_bytes=0)
    state: dict[tuple[str, str], tuple[int, int]] = {}
    seen: dict[str, Any] = {}

    for index, (side, key, value, time) in enumerate(given_updates):
        if index == cut:
            driver.restart()
        driver.pipe(side, value, key=key, timestamp=time)
        if value is None:
            state.pop((side, key), None)
        else:
            state[side, key] = (value, time)
        seen.update({row[0]: row[1] for row in rows(driver)})
        one, two = (state.get((name, key), (None, 0))[0] for name in ("left", "right"))
        assert seen.get(key) == result(kind, one, two)


def test_a_tombstone_goes_on_wherever_the_other_side_has_a_value() -> None:
    app = Streams("app")
    left, right = app.table("left", int, key=str), app.table("right", int, key=str)
    left.join(right).changes().to("out")
    driver = app.test()
    driver.pipe("right", 1, key="a", timestamp=5)

    driver.pipe("left", None, key="a", timestamp=3)

    assert rows(driver) == [("a", None, 5)]
