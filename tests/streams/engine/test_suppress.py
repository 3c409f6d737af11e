"""Updates that are held back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.streams import (
    RecordFailed,
    Streams,
    TopologyError,
    dead_letter,
    hopping,
    retry,
    tumbling,
    until_close,
    until_time,
)
from moldau.streams.problems import OperatorFailed
from moldau.streams.testing.driver import Driver
from tests.streams import models

DAY = 86_400_000
Rows = list[tuple[Any, Any, int]]


def rows(driver: Driver) -> Rows:
    return [(record.key, record.value, record.timestamp) for record in driver.read("out")]


@pytest.mark.parametrize("windows", [tumbling("2d"), hopping("2d", advance="1d")])
def test_changes_of_a_buffer_are_not_from_the_end_of_a_window(windows: Any) -> None:
    """Brokers refuse records from more than an hour ahead."""
    app = Streams("app")
    counts = app.stream("in", int, key=str).group_by_key().window(windows).count(name="n")
    counts.suppress(until_close(), name="s").changes().to("out")
    driver = app.test()
    now = 10 * DAY + 5

    driver.pipe("in", 1, key="a", timestamp=now)
    assert driver.changelogs["s"].timestamps
    assert max(driver.changelogs["s"].timestamps) <= now
    driver.restart(from_changelog=True)
    driver.pipe("in", 1, key="b", timestamp=now + 2 * DAY - 6)
    assert "a" not in {key.key for key, _ in driver.read("out") if key.end > now + DAY}
    driver.pipe("in", 1, key="b", timestamp=now + 3 * DAY)
    assert "a" in {key.key for key, _ in driver.read("out")}


def test_changes_of_a_buffer_are_not_from_the_end_of_a_wait() -> None:
    app = Streams("app")
    table = app.stream("in", int, key=str).to_table(name="rows")
    table.suppress(until_time("2d"), name="s").changes().to("out")
    driver = app.test()

    driver.pipe("in", 1, key="a", timestamp=DAY)
    assert driver.changelogs["s"].timestamps == [DAY]
    driver.restart(from_changelog=True)
    driver.pipe("in", 2, key="b", timestamp=3 * DAY - 1)
    assert rows(driver) == []
    driver.pipe("in", 3, key="b", timestamp=3 * DAY)
    assert rows(driver) == [("a", 1, DAY)]


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.just(1), st.integers(0, 60)), max_size=30),
    st.integers(1, 20),
    st.integers(0, 20),
    st.integers(0, 30),
)
def test_until_close_gives_each_windows_last_result_once(
    given_records: Rows, size: int, grace: int, cut: int
) -> None:
    app = Streams("app", emit="every")
    stream = app.stream("in", int, key=str)
    table = stream.group_by_key().window(tumbling(size, grace=grace)).count(name="n")
    table.suppress(until_close(), name="final").changes().to("out")
    driver = app.test()

    driver.pipe_all("in", given_records[:cut])
    driver.restart(from_changelog=True)
    driver.pipe_all("in", given_records[cut:])

    found = sorted(((row[0].key, row[0].start), row[1], row[2]) for row in rows(driver))
    # Its clock is the time of the updates that reach it: a late record moves it no further.
    _, closed, _ = models.windowed_counts(given_records, size, size, grace)
    assert found == sorted(closed)


def limited(**options: Any) -> Driver:
    app = Streams("app", emit="every")
    table = app.table("in", int, key=str)
    table.suppress(until_time(10, **options), name="s").changes().to("out")
    return app.test()


def test_until_time_gives_the_last_update_at_the_time_of_the_first() -> None:
    driver = limited()

    driver.pipe_all("in", [("a", 1, 0), ("a", 2, 5), ("b", None, 6), ("c", 1, 9)])
    assert rows(driver) == []
    driver.pipe_all("in", [("c", 2, 10), ("c", 3, 16)])

    assert rows(driver) == [("a", 2, 5), ("b", None, 6)]


def test_a_full_buffer_gives_out_the_oldest() -> None:
    driver = limited(max_records=1)

    driver.pipe_all("in", [("a", 1, 0), ("b", 2, 1)])

    assert rows(driver) == [("a", 1, 0)]


def test_a_buffer_full_of_bytes_gives_out_the_oldest() -> None:
    driver = limited(max_bytes=40)

    driver.pipe_all("in", [("a", 1, 0), ("b", 2, 1), ("c", 3, 1)])

    assert rows(driver)[0] == ("a", 1, 0)


@pytest.mark.parametrize("on_error", ["fail", "skip", retry(2), dead_letter("dead")])
def test_a_full_buffer_may_fail_and_no_policy_lets_it_grow(on_error: Any) -> None:
    app = Streams("app", emit="every", on_error=on_error)
    table = app.table("in", int, key=str)
    table.suppress(until_time(10, max_records=1, when_full="fail"), name="s").changes().to("out")
    driver = app.test()

    with pytest.raises(RecordFailed) as failed:
        driver.pipe_all("in", [("a", 1, 0), ("b", 2, 1)])

    assert str(failed.value) == (
        "topic=in partition=0 offset=1 operator=s: BufferFull: it holds 2 records, more than it "
        'may; raise max_records or max_bytes, or use until_time(..., when_full="emit")'
    )


def test_a_buffer_that_is_full_at_a_commit_tells_what_was_read() -> None:
    app = Streams("app")
    counts = app.stream("in", int, key=str).group_by_key().count(name="counts")
    limits = until_time(10, max_bytes=60, when_full="fail")
    counts.suppress(limits, name="s").changes().to("out")
    driver = app.test()

    with pytest.raises(OperatorFailed) as failed:
        driver.pipe_all("in", [(key, 1, 0) for key in "abcdefgh"])

    assert str(failed.value).startswith("app=app partition=0 operator=s: BufferFull: it holds ")
    assert str(failed.value).endswith(
        " bytes, more than it may; this was emitted at a commit or by the clock, after topic=in "
        "offset=7, so no single record is to blame: raise max_records or max_bytes, or use "
        'until_time(..., when_full="emit")'
    )


def test_until_close_needs_windows() -> None:
    app = Streams("app")

    with pytest.raises(TopologyError, match="needs a table in windows"):
        app.table("in", int).suppress(until_close(), name="s")
