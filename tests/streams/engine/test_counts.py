"""Counts, plain and in windows, against a brute-force model; batches and caches change nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import Streams, Windowed, hopping
from moldau.streams.testing.driver import Driver
from tests.streams import models

BATCHES = (1, 7, 500)

records = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b", "ab", ""]), st.none() | st.just("v"), st.integers(0, 60)
    ),
    max_size=40,
)


def rows(driver: Driver, topic: str) -> list[tuple[Any, Any, int]]:
    return [
        (
            (record.key.key, record.key.start) if isinstance(record.key, Windowed) else record.key,
            record.value,
            record.timestamp,
        )
        for record in driver.read(topic)
    ]


@given(records, st.sampled_from(BATCHES), st.sampled_from([0, 10**6]))
def test_each_update_of_a_count_is_the_models(
    given_records: list[tuple[Any, Any, int]], batch: int, cache_bytes: int
) -> None:
    app = Streams("app", emit="every")
    app.stream("in", str, key=str).group_by_key().count(name="n").changes().to("out")
    driver = app.test(batch=batch, cache_bytes=cache_bytes)

    driver.pipe_all("in", given_records)

    expected = models.counts(given_records)
    assert rows(driver, "out") == expected
    assert driver.store("n") == {key: count for key, count, _ in expected}


@given(records, st.integers(0, 40))
def test_updates_at_commits_end_with_the_models_and_the_changelog_restores_them(
    given_records: list[tuple[Any, Any, int]], cut: int
) -> None:
    app = Streams("app")
    app.stream("in", str, key=str).group_by_key().count(name="n").changes().to("out")
    driver = app.test(cache_bytes=0)

    driver.pipe_all("in", given_records[:cut])
    driver.restart(from_changelog=True)
    driver.pipe_all("in", given_records[cut:])

    expected = {key: (count, time) for key, count, time in models.counts(given_records)}
    written = {key: (count, time) for key, count, time in rows(driver, "out")}
    assert written == expected
    assert driver.store("n") == {key: count for key, (count, _) in expected.items()}


windows = st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(0, 20)).filter(
    lambda sizes: sizes[1] <= sizes[0]
)


@given(records, windows, st.sampled_from(BATCHES), st.sampled_from([0, 10**6]))
def test_each_update_in_windows_is_the_models(
    given_records: list[tuple[Any, Any, int]],
    sizes: tuple[int, int, int],
    batch: int,
    cache_bytes: int,
) -> None:
    size, advance, grace = sizes
    app = Streams("app", emit="every")
    counts = (
        app.stream("in", str, key=str)
        .group_by_key()
        .window(hopping(size, advance=advance, grace=grace))
        .count(name="n")
    )
    counts.changes().to("out")
    counts.late().to("late")
    driver = app.test(batch=batch, cache_bytes=cache_bytes)

    driver.pipe_all("in", given_records)

    updates, _, late = models.windowed_counts(given_records, size, advance, grace)
    assert rows(driver, "out") == updates
    assert rows(driver, "late") == late


@given(records, windows, st.sampled_from(BATCHES), st.integers(0, 40), st.booleans())
def test_no_closed_window_is_lost_over_a_restart(
    given_records: list[tuple[Any, Any, int]],
    sizes: tuple[int, int, int],
    batch: int,
    cut: int,
    from_changelog: bool,
) -> None:
    size, advance, grace = sizes
    app = Streams("app")
    (
        app.stream("in", str, key=str)
        .group_by_key()
        .window(hopping(size, advance=advance, grace=grace), emit="close")
        .count(name="n")
        .changes()
        .to("out")
    )
    driver = app.test(batch=batch, cache_bytes=0)

    driver.pipe_all("in", given_records[:cut])
    driver.restart(from_changelog=from_changelog)
    driver.pipe_all("in", given_records[cut:])

    _, closed, _ = models.windowed_counts(given_records, size, advance, grace)
    assert rows(driver, "out") == closed


@pytest.mark.parametrize("emit", ["commit", "every"])
def test_the_word_count_of_the_docs(emit: Any) -> None:
    app = Streams("wc", emit=emit)
    lines = app.stream("lines", str)
    lines.flat_map(str.split).group_by(lambda word: word).count(name="counts").changes().to("out")
    driver = app.test()

    driver.pipe("lines", "to be or not to be")

    assert {record.key: record.value for record in driver.read("out")} == {
        "to": 2,
        "be": 2,
        "or": 1,
        "not": 1,
    }
    assert [topic.name for topic in app.plan().repartitions] == ["wc-counts-repartition"]
    assert list(app.plan().changelogs()) == ["wc-counts-changelog"]
