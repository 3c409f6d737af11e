"""Tables grouped anew: the old value leaves its group, the new one enters its own."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Streams

Updates = list[tuple[str, int | None, int]]

updates: st.SearchStrategy[Updates] = st.lists(
    st.tuples(st.sampled_from("abcd"), st.none() | st.integers(0, 9), st.integers(0, 9)),
    max_size=30,
)


@given(updates, st.sampled_from([1, 7, 500]), st.integers(0, 30))
def test_groups_hold_what_their_rows_add_up_to(
    given_updates: Updates, batch: int, cut: int
) -> None:
    app = Streams("app")
    table = app.table("in", int, key=str)
    groups = table.group_by(lambda key, value: (value % 3, value), key=int, type=int)
    groups.sum(name="sums").changes().to("out")
    groups.count(name="counts")
    groups.reduce(lambda old, new: old + new, lambda old, gone: old - gone, name="reduced")
    driver = app.test(batch=batch, cache_bytes=0)

    driver.pipe_all("in", given_updates[:cut])
    driver.restart()
    driver.pipe_all("in", given_updates[cut:])

    table_rows = {key: value for key, value, _ in given_updates}
    values = [value for value in table_rows.values() if value is not None]
    for group in range(3):
        members = [value for value in values if value % 3 == group]
        assert driver.store("counts").get(group, 0) == len(members)
        assert driver.store("sums").get(group, 0) == sum(members)
        assert driver.store("reduced").get(group, 0) == sum(members)


def test_a_row_that_stays_in_its_group_is_one_update() -> None:
    app = Streams("app", emit="every")
    table = app.table("in", int, key=str)
    groups = table.group_by(lambda _, value: ("all", value), key=str, type=int)
    groups.sum(name="sums").changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 5, 1), ("a", 7, 2), ("b", 1, 3), ("a", None, 4)])

    found: list[Any] = [(record.value, record.timestamp) for record in driver.read("out")]
    assert found == [(5, 1), (7, 2), (8, 3), (1, 4)]


def test_an_aggregate_of_rows_takes_old_values_out() -> None:
    app = Streams("app", emit="every")
    table = app.table("in", str, key=str)
    groups = table.group_by(lambda key, value: (value[0], key), key=str, type=str)

    def add(names: list[str], name: str) -> list[str]:
        return [*names, name]

    def remove(names: list[str], name: str) -> list[str]:
        return [each for each in names if each != name]

    groups.aggregate(list[str], add, remove, name="names").changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("k1", "ax", 0), ("k2", "ay", 0), ("k1", "bz", 0)])

    assert [(record.key, record.value) for record in driver.read("out")] == [
        ("a", ["k1"]),
        ("a", ["k1", "k2"]),
        ("a", ["k2"]),
        ("b", ["k1"]),
    ]
