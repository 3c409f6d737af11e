"""Sliding, unlimited and count windows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moldau.streams import (
    Streams,
    TopologyError,
    count_window,
    hopping,
    session,
    sliding,
    tumbling,
    unlimited,
)
from moldau.streams.testing.driver import Driver
from tests.streams import models

Rows = list[tuple[Any, Any, int]]

records: st.SearchStrategy[Rows] = st.lists(
    st.tuples(st.sampled_from([None, "a", "b"]), st.none() | st.integers(0, 9), st.integers(0, 40)),
    max_size=25,
)


def rows(driver: Driver) -> Rows:
    return [(tuple(record.key), record.value, record.timestamp) for record in driver.read("out")]


@given(records, st.integers(0, 15), st.sampled_from([1, 7, 500]), st.integers(0, 25))
def test_sliding_windows_hold_what_their_definition_says(
    given_records: Rows, difference: int, batch: int, cut: int
) -> None:
    app = Streams("app", emit="every")
    stream = app.stream("in", int, key=str)
    group = stream.group_by_key().window(sliding(difference, grace="1h"))
    group.collect(name="t").changes().to("out")
    driver = app.test(batch=batch)

    driver.pipe_all("in", given_records[:cut])
    driver.restart(from_changelog=True)
    driver.pipe_all("in", given_records[cut:])

    expected = models.sliding(given_records, difference)
    assert driver.store("t") == expected
    assert {(row[0][0], row[0][1]): row[1] for row in rows(driver)} == expected


_OUT_OF_ORDER: Rows = [("a", 1, 30), ("a", 2, 10), ("a", 3, 12), ("a", 4, 31), ("b", 5, 11)]


@pytest.mark.parametrize(
    "windows",
    [
        sliding(10, grace="1h"),
        hopping(10, advance=3, grace="1h"),
        tumbling(7, grace="1h"),
        session(4, grace="1h"),
    ],
)
@given(given_records=records, cut=st.integers(0, 25))
@example(given_records=_OUT_OF_ORDER, cut=2)
def test_the_order_of_a_commit_is_the_same_after_a_restart(
    given_records: Rows, windows: Any, cut: int
) -> None:
    def told(*, restarts: bool) -> Rows:
        app = Streams("app", emit="commit")
        group = app.stream("in", int, key=str).group_by_key().window(windows)
        group.collect(name="t").changes().to("out")
        driver = app.test()
        driver.pipe_all("in", given_records[:cut])
        if restarts:
            driver.restart()
        driver.pipe_all("in", given_records[cut:])
        return rows(driver)

    assert told(restarts=True) == told(restarts=False)


@given(records, st.integers(0, 15), st.integers(0, 15))
def test_each_closed_sliding_window_is_emitted_once(
    given_records: Rows, difference: int, grace: int
) -> None:
    app = Streams("app")
    stream = app.stream("in", int, key=str)
    group = stream.group_by_key().window(sliding(difference, grace=grace), emit="close")
    group.count(name="t").changes().to("out")
    driver = app.test()

    driver.pipe_all("in", sorted(given_records, key=lambda record: record[2]))

    kept = [row for row in given_records if row[0] is not None and row[1] is not None]
    clock = max((row[2] for row in kept), default=-1)
    expected = {
        window: len(held)
        for window, held in models.sliding(kept, difference).items()
        if window[1] + difference + grace < clock
    }
    found = rows(driver)
    assert {(row[0][0], row[0][1]): row[1] for row in found} == expected
    assert len(found) == len(expected)


def test_an_unlimited_window_never_ends() -> None:
    app = Streams("app", emit="every")
    group = app.stream("in", int, key=str).group_by_key().window(unlimited(100))
    group.sum(name="t").changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 99), ("a", 2, 100), ("a", 4, 10**12), ("a", 8, 101)])

    assert [(row[0][:2], row[1]) for row in rows(driver)] == [
        (("a", 100), 2),
        (("a", 100), 6),
        (("a", 100), 14),
    ]


def test_a_count_window_is_full_with_so_many_records() -> None:
    app = Streams("app")
    group = app.stream("in", int, key=str).group_by_key()
    group.window(count_window(3, advance=2), emit="close").collect(name="t").changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", index, index) for index in range(4)])
    driver.restart(from_changelog=True)
    driver.pipe_all("in", [("b", 9, 9), *(("a", index, index) for index in range(4, 8))])

    assert rows(driver) == [
        (("a", 0, 3), [0, 1, 2], 2),
        (("a", 2, 5), [2, 3, 4], 4),
        (("a", 4, 7), [4, 5, 6], 6),
    ]


def test_a_count_window_may_emit_each_update() -> None:
    app = Streams("app", emit="every")
    group = app.stream("in", int, key=str).group_by_key()
    group.window(count_window(2)).sum(name="t").changes().to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 0), ("a", 2, 0), ("a", 4, 0)])

    assert [(row[0][1], row[1]) for row in rows(driver)] == [(0, 1), (0, 3), (2, 4)]


@pytest.mark.parametrize(
    ("windows", "text"),
    [
        (lambda: tumbling("0s"), "above 0"),
        (lambda: tumbling("1 minute"), "is no duration"),
        (lambda: tumbling("1m", grace=-1), "must not be negative"),
        (lambda: count_window(2, advance=3), "1 <= advance <= size"),
        (lambda: unlimited(-1), "must not be negative"),
    ],
)
def test_impossible_windows_are_refused(windows: Any, text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        windows()


def test_an_unlimited_window_cannot_close() -> None:
    app = Streams("app")
    group = app.stream("in", int).group_by_key().window(unlimited(), emit="close")

    with pytest.raises(TopologyError, match="has no end"):
        group.count(name="t")
