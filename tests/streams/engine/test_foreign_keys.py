"""Joins of tables by a foreign key."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Streams, TopologyError
from moldau.streams.testing.driver import Driver

Updates = list[tuple[str, str, Any, int]]

lefts = st.tuples(
    st.just("left"),
    st.sampled_from(["l1", "l2", "l"]),
    st.none() | st.fixed_dictionaries({"fk": st.none() | st.sampled_from(["r1", "r2", "r"])}),
    st.integers(0, 9),
)
rights = st.tuples(
    st.just("right"),
    st.sampled_from(["r1", "r2", "r"]),
    st.none() | st.integers(0, 9),
    st.integers(0, 9),
)
updates: st.SearchStrategy[Updates] = st.lists(st.one_of(lefts, rights), max_size=30)


def joined(kind: str, **options: Any) -> Driver:
    app = Streams("app")
    left = app.table("left", key=str)
    right = app.table("right", int, key=str)
    join = {"inner": left.join, "left": left.left_join}[kind]
    table = join(right, lambda one, two: [one["fk"], two], on=lambda row: row["fk"], name="j")
    table.changes().to("out")
    return app.test(**options)


def rows(driver: Driver) -> list[tuple[Any, Any, int]]:
    return [(record.key, record.value, record.timestamp) for record in driver.read("out")]


@pytest.mark.parametrize("kind", ["inner", "left"])
@given(given_updates=updates, batch=st.sampled_from([1, 7, 500]), cut=st.integers(0, 30))
def test_the_changes_fold_to_the_join_of_the_rows(
    kind: str, given_updates: Updates, batch: int, cut: int
) -> None:
    driver = joined(kind, batch=batch, cache_bytes=0)
    tables: dict[str, dict[str, Any]] = {"left": {}, "right": {}}
    seen: dict[str, Any] = {}

    for index, (side, key, value, time) in enumerate(given_updates):
        if index == cut:
            driver.restart()
        driver.pipe(side, value, key=key, timestamp=time)
        tables[side][key] = value
        seen.update({row[0]: row[1] for row in rows(driver)})
        expected = {}
        for name, row in tables["left"].items():
            other = None if row is None else tables["right"].get(row["fk"])
            if row is not None and (other is not None or kind == "left"):
                expected[name] = [row["fk"], other]
        assert {name: row for name, row in seen.items() if row is not None} == expected
        assert driver.store("j") == expected


def test_an_update_from_the_right_brings_its_own_time() -> None:
    driver = joined("inner")
    driver.pipe("left", {"fk": "r"}, key="l", timestamp=9)
    driver.pipe("right", 1, key="r", timestamp=5)
    driver.pipe("left", {"fk": "r"}, key="l", timestamp=3)

    assert rows(driver) == [("l", ["r", 1], 5), ("l", ["r", 1], 5)]


def test_a_deletion_on_the_right_is_told_each_time() -> None:
    driver = joined("inner")
    driver.pipe("left", {"fk": "r"}, key="l", timestamp=1)
    driver.pipe("right", None, key="r", timestamp=2)
    driver.pipe("right", None, key="r", timestamp=3)

    assert rows(driver) == [("l", None, 2), ("l", None, 3)]


def test_a_foreign_key_of_another_type_is_refused() -> None:
    app = Streams("app")
    left, right = app.table("left", int, key=str), app.table("right", int, key=str)

    with pytest.raises(TopologyError, match="they would never meet"):
        left.join(right, on=lambda row: row, name="j")


class Tagged(msgspec.Struct):
    to: str
    tags: set[str]


def test_rows_with_sets_are_still_joined_after_a_restart() -> None:
    """Equal sets come in any order, and an answer to another version of a row is dropped."""
    app = Streams("app")
    rows = app.table("rows", Tagged, key=int)
    names = app.table("names", str, key=str)
    rows.join(names, lambda row, name: name, on=lambda row: row.to, name="j").changes().to("out")
    driver = app.test()
    tags = [{f"{row}-{tag}-{tag * 7919}" for tag in range(6)} for row in range(40)]
    driver.pipe_all("rows", [(at, Tagged("n", each), 0) for at, each in enumerate(tags)])
    driver.pipe("names", "one", key="n")
    driver.read("out")
    driver.restart()

    driver.pipe("names", "two", key="n")

    assert {each.key: each.value for each in driver.read("out")} == dict.fromkeys(range(40), "two")
