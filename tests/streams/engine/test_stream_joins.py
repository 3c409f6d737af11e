"""Joins of two streams against a brute-force model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Streams, TopologyError, within
from moldau.streams.testing.driver import Driver
from tests.streams import models

KINDS = ("inner", "left", "outer")
Sided = list[tuple[str, Any, Any, int]]

records: st.SearchStrategy[Sided] = st.lists(
    st.tuples(
        st.sampled_from(["left", "right"]),
        st.sampled_from([None, "a", "b"]),
        st.none() | st.integers(0, 9),
        st.integers(0, 40),
    ),
    max_size=30,
)
spans = st.tuples(st.integers(-3, 12), st.integers(-3, 12), st.integers(0, 10)).filter(
    lambda span: span[0] + span[1] >= 0
)


def joined(kind: str, span: tuple[int, int, int], **options: Any) -> Driver:
    app = Streams("app")
    left = app.stream("left", int, key=str)
    right = app.stream("right", int, key=str)
    join = {"inner": left.join, "left": left.left_join, "outer": left.outer_join}[kind]
    before, after, grace = span
    windows = within(before=before, after=after, grace=grace)
    joiner = lambda one, two: [one, two]  # noqa: E731
    join(right, joiner, within=windows, name="j").to("out")
    return app.test(**options)


def rows(driver: Driver) -> list[tuple[Any, Any, int]]:
    return [(record.key, record.value, record.timestamp) for record in driver.read("out")]


@given(records, spans, st.sampled_from(KINDS), st.integers(0, 30), st.booleans())
def test_a_join_is_the_models_also_over_a_restart(
    given_records: Sided, span: tuple[int, int, int], kind: str, cut: int, from_changelog: bool
) -> None:
    driver = joined(kind, span, cache_bytes=0)
    model = models.Joined(kind, *span)

    for index, (side, key, value, time) in enumerate(given_records):
        if index == cut:
            driver.commit()
            driver.restart(from_changelog=from_changelog)
            # Kafka's stores forget their clock, too, where rows have expired.
            model.clocks = {
                name: max((row[2] for row in model.stores[name]), default=-1)
                for name in model.stores
            }
        driver.pipe_all(side, [(key, value, time)], commit=False)
        model.add(side, key, value, time)

    assert rows(driver) == model.found


@given(records, spans, st.sampled_from(KINDS))
def test_batches_change_nothing(
    given_records: Sided, span: tuple[int, int, int], kind: str
) -> None:
    found = []
    for batch in (1, 7, 500):
        driver = joined(kind, span, batch=batch)
        for side in ("left", "right"):
            chosen = [record[1:] for record in given_records if record[0] == side]
            driver.add(side, chosen)
        driver.run()
        found.append(rows(driver))

    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_without_width_joins_records_of_one_time(kind: str) -> None:
    driver = joined(kind, (0, 0, 0))
    driver.pipe_all("left", [("a", 1, 5)])
    driver.pipe_all("right", [("a", 2, 5)])
    assert rows(driver) == [("a", [1, 2], 5)]


def test_a_lonely_record_comes_out_when_time_goes_on_by_the_clock() -> None:
    app = Streams("app")
    left = app.stream("left", int, key=str)
    right = app.stream("right", int, key=str)
    left.left_join(right, within=within("1s", idle="5s"), name="j").to("out")
    driver = app.test()
    driver.pipe("left", 1, key="a", timestamp=0)
    driver.advance(4999)
    assert rows(driver) == []

    driver.advance(1)

    assert rows(driver) == [("a", (1, None), 0)]


def test_a_stream_joins_itself() -> None:
    app = Streams("app")
    stream = app.stream("in", int, key=str)
    stream.join(stream, within=5, name="j").to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 0), ("a", 2, 3), ("a", 3, 9)])

    assert sorted(record[1] for record in rows(driver)) == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 3)]


def test_keys_of_two_types_never_meet() -> None:
    app = Streams("app")
    left = app.stream("left", int, key=int)

    with pytest.raises(TopologyError, match="they would never meet"):
        left.join(app.stream("right", int, key=str), within="1s", name="j")


def test_a_rekeyed_side_is_repartitioned_with_the_other_sides_key() -> None:
    app = Streams("app")
    left = app.stream("left", key=str).select_key(lambda order: order["user"])
    right = app.stream("right", int, key=int)
    left.join(right, lambda one, two: [one["user"], two], within=5, name="j").to("out")
    driver = app.test()

    driver.pipe("left", {"user": 7}, key="x", timestamp=0)
    driver.pipe("right", 1, key=7, timestamp=1)

    assert rows(driver) == [(7, [7, 1], 1)]
    assert [topic.name for topic in app.plan().repartitions] == ["app-j-left-repartition"]
