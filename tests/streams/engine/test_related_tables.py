"""Joins of tables that come from one table: one update changes both sides."""

from __future__ import annotations

from typing import Literal

import pytest

from moldau.streams import Streams, Table
from moldau.streams.testing.driver import Driver

Emit = Literal["commit", "every"]
EMITS: list[Emit] = ["commit", "every"]


def joined(emit: Emit) -> Driver:
    app = Streams("app", emit=emit)
    rows = app.table("in", int, key=str)
    doubled = rows.map_values(lambda value: value * 2, type=int)
    small: Table[str, int] = rows.filter(lambda value: value < 10)
    pairs = small.join(doubled, lambda left, right: left * right)._typed(int)
    pairs.changes().to("out")
    pairs.group_by(lambda _, value: ("all", value), key=str, type=int).sum(
        name="total"
    ).changes().to("total")
    return app.test()


@pytest.mark.parametrize("emit", EMITS)
def test_a_row_that_goes_on_both_sides_goes_from_the_result(emit: Emit) -> None:
    driver = joined(emit)
    driver.pipe("in", 3, key="a", timestamp=1)
    assert driver.read("out")[-1].value == 18

    driver.pipe("in", None, key="a", timestamp=2)

    assert driver.read("out")[-1].value is None


@pytest.mark.parametrize("emit", EMITS)
def test_what_is_made_of_the_result_takes_back_what_it_was_given(emit: Emit) -> None:
    driver = joined(emit)
    for value in (3, 4, 12, 5):
        driver.pipe("in", value, key="a", timestamp=value)
    driver.pipe("in", 2, key="b", timestamp=20)

    assert driver.read("total")[-1].value == 5 * 10 + 2 * 4


@pytest.mark.parametrize("emit", EMITS)
def test_two_tables_that_delete_a_row_in_one_commit(emit: Emit) -> None:
    app = Streams("app", emit=emit)
    sides = [
        app.stream(topic, int, key=str).to_table(name=f"{topic}-rows") for topic in ("one", "two")
    ]
    sides[0].join(sides[1]).changes().to("out")
    driver = app.test()
    for topic in ("one", "two"):
        driver.pipe(topic, 1, key="a", timestamp=1)

    for topic in ("one", "two"):
        driver.add(topic, [("a", None, 2)])
    driver.run()
    driver.commit()

    assert driver.read("out")[-1].value is None
