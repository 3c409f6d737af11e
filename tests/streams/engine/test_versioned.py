"""Tables with a history, and joins as of a record's time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Streams, TopologyError
from moldau.streams.serdes.types import TEXT, codec_for
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.state.spec import StoreKind, StoreSpec
from moldau.streams.state.versioned import VersionedStore
from moldau.streams.testing.driver import Driver

puts = st.lists(
    st.tuples(st.sampled_from(["a", "ab"]), st.none() | st.integers(0, 9), st.integers(0, 40)),
    max_size=30,
)


@given(puts, st.integers(0, 30), st.sampled_from([1, 4, 50]))
def test_a_history_answers_as_of_each_time_it_covers(
    given_puts: list[tuple[str, int | None, int]], retention: int, flush_every: int
) -> None:
    spec = StoreSpec("v", StoreKind.VERSIONED, TEXT, codec_for(int), retention_ms=retention)
    store = VersionedStore(spec, MemoryBacking())
    kept: dict[tuple[str, int], int | None] = {}
    clock = -1

    for index, (key, value, time) in enumerate(given_puts):
        clock = max(clock, time)
        assert store.put(key, value, time) == (time >= clock - retention)
        if time >= clock - retention:
            kept[key, time] = value
        if index % flush_every == 0:
            store.flush()
            store.expire()
            store.trim(0)

    for key in ("a", "ab"):
        for time in range(max(0, clock - retention), clock + 2):
            past = [at for name, at in kept if name == key and at <= time]
            expected = kept[key, max(past)] if past else None
            found = store.as_of(key, time)
            assert (None if found is None else found[0]) == expected


def rows(driver: Driver) -> list[tuple[Any, Any, int]]:
    return [(record.key, record.value, record.timestamp) for record in driver.read("out")]


def priced(grace: int | None = None) -> Driver:
    app = Streams("app")
    prices = app.table("prices", int, key=str, versioned="1h")
    orders = app.stream("orders", int, key=str)
    view = prices.map_values(lambda price: price)
    orders.join(view, lambda order, price: order * price, grace=grace, name="j").to("out")
    return app.test()


def test_a_record_meets_the_row_of_its_time() -> None:
    driver = priced()
    driver.pipe_all("prices", [("a", 10, 100), ("a", 20, 200)])

    driver.pipe_all("orders", [("a", 1, 250), ("a", 1, 150), ("a", 1, 50), ("a", 1, 200)])

    assert rows(driver) == [("a", 20, 250), ("a", 10, 150), ("a", 20, 200)]


def test_with_grace_rows_that_come_late_are_seen() -> None:
    driver = priced(grace=100)
    driver.pipe("prices", 10, key="a", timestamp=0)
    driver.pipe("orders", 1, key="a", timestamp=150)
    assert rows(driver) == []

    driver.pipe("prices", 20, key="a", timestamp=140)
    driver.restart(from_changelog=True)
    driver.pipe_all("orders", [("b", 1, 250), ("a", 2, 149)])

    assert rows(driver) == [("a", 20, 150), ("a", 40, 149)]


def test_a_stream_becomes_a_table_with_a_history() -> None:
    app = Streams("app")
    quotes = app.stream("quotes", int, key=str).to_table(name="q", versioned="1m")
    app.stream("in", int, key=str).left_join(quotes).to("out")
    driver = app.test()
    driver.pipe_all("quotes", [("a", 1, 0), ("a", 2, 10)])
    driver.restart(from_changelog=True)

    driver.pipe("in", 5, key="a", timestamp=5)

    assert [row[1] for row in rows(driver)] == [(5, 1)]


def test_grace_is_no_longer_than_the_history() -> None:
    app = Streams("app")
    table = app.table("t", int, key=str, versioned="1m")
    stream = app.stream("in", int, key=str)
    stream.join(table, grace="1m", name="fits")

    with pytest.raises(TopologyError, match="longer than the history of the table, 60000 ms"):
        stream.join(table, grace="61s", name="j")


def test_grace_needs_a_history() -> None:
    app = Streams("app")
    table = app.table("t", int, key=str)

    with pytest.raises(TopologyError, match="versioned="):
        app.stream("in", int, key=str).join(table, grace=5, name="j")
