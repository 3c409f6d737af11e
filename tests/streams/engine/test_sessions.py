"""Sessions against a brute-force model."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Streams, TopologyError, session
from moldau.streams.testing.driver import Driver
from tests.streams import models

Rows = list[tuple[Any, Any, int]]

records: st.SearchStrategy[Rows] = st.lists(
    st.tuples(st.sampled_from([None, "a", "b"]), st.just(1), st.integers(0, 60)), max_size=30
)
gaps = st.integers(1, 15)
graces = st.integers(0, 15)


def counted(
    gap: int, grace: int, emit: Literal["commit", "every", "close"], **options: Any
) -> Driver:
    app = Streams("app")
    stream = app.stream("in", int, key=str)
    group = stream.group_by_key().window(session(gap, grace=grace), emit=emit)
    table = group.count(name="n")
    table.changes().to("out")
    table.late().to("late")
    return app.test(**options)


def rows(driver: Driver) -> Rows:
    return [(tuple(record.key), record.value, record.timestamp) for record in driver.read("out")]


def modelled(given_records: Rows, gap: int, grace: int) -> models.Sessions:
    model = models.Sessions(gap, grace)
    for record in given_records:
        model.add(*record)
    return model


@given(records, gaps, graces, st.sampled_from([1, 7, 500]))
def test_each_update_is_the_models(given_records: Rows, gap: int, grace: int, batch: int) -> None:
    driver = counted(gap, grace, "every", batch=batch)

    driver.pipe_all("in", given_records)

    model = modelled(given_records, gap, grace)
    assert rows(driver) == model.updates
    late = [(record.key, record.value, record.timestamp) for record in driver.read("late")]
    assert late == model.late


@given(records, gaps, graces, st.integers(0, 30), st.booleans(), st.sampled_from([0, 10_000]))
def test_no_closed_session_is_lost_over_a_restart(
    given_records: Rows, gap: int, grace: int, cut: int, from_changelog: bool, cache_bytes: int
) -> None:
    driver = counted(gap, grace, "close", cache_bytes=cache_bytes)

    driver.pipe_all("in", given_records[:cut])
    driver.restart(from_changelog=from_changelog)
    driver.pipe_all("in", given_records[cut:])

    assert rows(driver) == modelled(given_records, gap, grace).closed


@given(records, gaps, graces, st.integers(1, 9), st.sampled_from([0, 10_000]))
def test_updates_at_commits_fold_to_the_store(
    given_records: Rows, gap: int, grace: int, step: int, cache_bytes: int
) -> None:
    driver = counted(gap, grace, "commit", cache_bytes=cache_bytes)
    seen: dict[Any, Any] = {}

    for first in range(0, len(given_records), step):
        driver.pipe_all("in", given_records[first : first + step])
        seen.update({row[0]: row[1] for row in rows(driver)})

    kept = {key: value for key, value in seen.items() if value is not None}
    model = modelled(given_records, gap, grace)
    assert kept == {(key, start, end): count for (end, start, key), count in model.sessions.items()}
    edge = model.end_put - model.open
    assert driver.store("n") == {key: count for key, count in kept.items() if key[2] > edge}


def test_sessions_of_an_aggregate_need_a_merger() -> None:
    app = Streams("app")
    group = app.stream("in", int).group_by_key().window(session("1m"))

    with pytest.raises(TopologyError, match="needs merge"):
        group.aggregate(0, lambda old, value: old + value, name="t")


def test_a_session_closes_by_the_wall_clock() -> None:
    app = Streams("app")
    stream = app.stream("in", int, key=str)
    group = stream.group_by_key().window(session("1s"), emit="close", idle="5s")
    group.collect(name="n").changes().to("out")
    driver = app.test()
    driver.pipe_all("in", [("a", 7, 0), ("a", 8, 10)])

    driver.advance(5000)

    assert rows(driver) == [(("a", 0, 10), [7, 8], 10)]
