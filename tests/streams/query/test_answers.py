"""What queries see, in the test driver: the cache and the rows below it, by each kind of store."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Streams, Windowed, session, tumbling
from moldau.streams.query.questions import BadQuery, Row
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.state.keyvalue import KeyValueStore
from moldau.streams.testing.driver import Driver


def piped(app: Streams, *records: tuple[Any, Any, int], commit: bool = True) -> Driver:
    driver = app.test()
    driver.pipe_all("in", list(records), commit=commit)
    return driver


def test_a_table_is_read_with_what_no_commit_has_written() -> None:
    app = Streams("app")
    app.stream("in", str, key=str).group_by_key().count(name="counts")
    driver = piped(app, ("b", "x", 1), ("a", "x", 2), ("c", "x", 3))
    driver.add("in", [("a", "x", 4), ("d", "x", 5)])
    driver.run()
    counts = driver.query("counts")

    assert counts.get("a") == 2
    assert counts.row("a") == Row("a", 2, 4)
    assert counts.get("nobody") is None
    assert [tuple(row) for row in counts.all()] == [("a", 2), ("b", 1), ("c", 1), ("d", 1)]
    assert [row.key for row in counts.range("b", "c")] == ["b", "c"]
    assert [row.key for row in counts.range(limit=2, reverse=True)] == ["d", "c"]
    assert counts.approximate_count() == 4
    for ask in (counts.get, counts.range):
        with pytest.raises(BadQuery, match="store=counts: 5 is no key of it, which are str"):
            ask(5)
    with pytest.raises(BadQuery, match="store=counts kind=key-value: fetch is not for it"):
        counts.fetch("a")
    with pytest.raises(BadQuery, match="get is not for it: use as_of on a table with versioned"):
        counts.get("a", as_of=1)


def test_windows_of_a_key_and_of_a_range_of_keys() -> None:
    app = Streams("app")
    grouped = app.stream("in", str, key=str).group_by_key()
    grouped.window(tumbling(10, grace=100)).count(name="counts")
    driver = piped(
        app, ("a", "x", 1), ("b", "x", 3), ("a", "x", 12), ("a", "x", 13), ("c", "x", 25)
    )
    counts = driver.query("counts")

    assert counts.fetch("a") == [
        Row(Windowed("a", 0, 10), 1, 1),
        Row(Windowed("a", 10, 20), 2, 13),
    ]
    assert [row.key.start for row in counts.fetch("a", 10, 10)] == [10]
    assert [(row.key.key, row.key.start) for row in counts.windows("a", "b")] == [
        ("a", 0),
        ("a", 10),
        ("b", 0),
    ]
    assert [row.key.key for row in counts.windows(since=20)] == ["c"]
    assert counts.approximate_count() == 4
    with pytest.raises(BadQuery, match="use fetch"):
        counts.get("a")


def test_sessions_of_a_key() -> None:
    app = Streams("app")
    grouped = app.stream("in", str, key=str).group_by_key()
    grouped.window(session(5, grace=100)).count(name="counts")
    driver = piped(app, ("a", "x", 1), ("a", "x", 4), ("a", "x", 30), ("b", "x", 2))
    counts = driver.query("counts")

    assert counts.fetch("a") == [Row(Windowed("a", 1, 4), 2, 4), Row(Windowed("a", 30, 30), 1, 30)]
    assert [row.key for row in counts.fetch("a", 20)] == [Windowed("a", 30, 30)]
    assert [row.key.key for row in counts.windows("b")] == ["b"]


@pytest.mark.parametrize(("end", "starts"), [(19, [10, 19]), (20, [20])])
def test_a_session_at_the_edge_of_the_retention_is_in_all_answers_or_in_none(
    end: int, starts: list[int]
) -> None:
    app = Streams("app")
    grouped = app.stream("in", str, key=str).group_by_key()
    grouped.window(session(5, grace=5)).count(name="counts")
    driver = piped(app, ("a", "x", 10), ("b", "x", end))
    counts = driver.query("counts")

    assert [row.key.start for key in ("a", "b") for row in counts.fetch(key)] == starts
    assert [row.key.start for row in counts.windows()] == starts
    assert [start for _, start, _ in driver.store("counts")] == starts


def test_a_versioned_table_answers_as_of_a_time() -> None:
    app = Streams("app")
    app.table("in", str, key=str, name="prices", versioned="1h")
    driver = piped(app, ("a", "one", 10), ("a", None, 20), ("a", "three", 30))
    prices = driver.query("prices")

    assert prices.get("a") == "three"
    assert [prices.get("a", as_of=time) for time in (9, 10, 19, 20, 29, 31)] == [
        None,
        "one",
        "one",
        None,
        None,
        "three",
    ]
    assert [(row.timestamp, row.value) for row in prices.fetch("a", 15, 40)] == [
        (20, None),
        (30, "three"),
    ]


def test_a_value_that_comes_out_is_not_the_one_in_the_cache() -> None:
    app = Streams("app")
    app.stream("in", str, key=str).group_by_key().collect(name="all")
    driver = piped(app, ("a", "x", 1))
    driver.query("all").get("a").append("mine")
    assert driver.query("all").get("a") == ["x"]


def test_a_store_that_does_not_exist() -> None:
    app = Streams("app")
    app.stream("in", str, key=str).group_by_key().count(name="counts")
    with pytest.raises(Exception, match="store=sums: the app has no such store; it has counts"):
        app.test().query("sums")


WRITES = st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 5))))


@given(WRITES, WRITES, st.integers(0, 9), st.integers(0, 9), st.integers(1, 5), st.booleans())
def test_a_limited_range_is_the_beginning_of_the_whole(
    flushed: list[tuple[int, int | None]],
    fresh: list[tuple[int, int | None]],
    first: int,
    last: int,
    limit: int,
    is_reverse: bool,
) -> None:
    app = Streams("app")
    app.table("in", int, key=str, name="table")
    spec = app.plan().programs[0].stores[0]
    store = KeyValueStore(spec, MemoryBacking())
    for key, value in flushed:
        store.put(str(key), value, 1)
    store.flush()
    for key, value in fresh:
        store.put(str(key), value, 2)
    whole = list(store.items(str(first), str(last)))[:: -1 if is_reverse else 1]
    found = store.peek_range(str(first), str(last), limit=limit, is_reverse=is_reverse)
    assert found == whole[:limit]
