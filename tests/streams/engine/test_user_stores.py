"""Stores of users' operators: windows, sessions and versions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.streams import Context, Record, StateStore, Streams, StreamsError, TopologyError

MINUTE = 60_000
HOUR = 60 * MINUTE


class Sums:
    """Adds up values in windows of a minute; forwards the sums of the last hour."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.sums = context.store("sums")

    def process(self, record: Record) -> None:
        start = record.timestamp // MINUTE * MINUTE
        is_kept = self.sums.put(
            record.key, self.sums.get(record.key, start, 0) + record.value, start
        )
        found = self.sums.fetch(record.key) if is_kept else "too old"
        self.context.forward(record.changed(value=found))


def windows(**more: Any) -> StateStore:
    return StateStore.windows("sums", size="1m", retention="1h", key=str, value=int, **more)


def sums_app(store: StateStore) -> Streams:
    app = Streams("app")
    stream = app.stream("in", int, key=str)
    stream.process(Sums, name="sums-of", stores=[store]).to("out")
    return app


def test_the_change_of_a_window_in_the_future_has_the_present_time() -> None:
    class Plans:
        def __init__(self, context: Context) -> None:
            self.sums = context.store("sums")

        def process(self, record: Record) -> None:
            self.sums.put(record.key, record.value, record.timestamp + 6 * HOUR)

    app = Streams("app")
    app.stream("in", int, key=str).process(Plans, name="plans", stores=[windows()])
    driver = app.test()

    driver.pipe("in", 1, key="a", timestamp=HOUR)

    assert driver.store("sums") == {("a", 7 * HOUR): 1}
    assert driver.changelogs["sums"].timestamps == [HOUR]


def test_windows_are_kept_for_their_retention_and_over_a_restart() -> None:
    driver = sums_app(windows()).test()

    driver.pipe_all("in", [("a", 1, 0), ("a", 2, 59_999), ("b", 5, 0), ("a", 4, MINUTE)])
    assert driver.store("sums") == {("a", 0): 3, ("b", 0): 5, ("a", MINUTE): 4}
    driver.restart(from_changelog=True)
    driver.pipe("in", 8, key="a", timestamp=MINUTE)
    driver.pipe("in", 1, key="a", timestamp=HOUR + MINUTE)
    driver.pipe("in", 1, key="b", timestamp=MINUTE)

    assert [record.value for record in driver.read("out")] == [
        [[0, 1]],
        [[0, 3]],
        [[0, 5]],
        [[0, 3], [MINUTE, 4]],
        [[0, 3], [MINUTE, 12]],
        [[HOUR + MINUTE, 1]],
        "too old",
    ]
    assert driver.store("sums") == {("a", HOUR + MINUTE): 1}


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20 * MINUTE), st.booleans())),
    st.sampled_from([1, 7, 500]),
)
def test_windows_are_a_dictionary_by_key_and_start(
    steps: list[tuple[str, int, bool]], batch: int
) -> None:
    class Model:
        def __init__(self, context: Context) -> None:
            self.windows = context.store("w")
            self.context = context
            self.kept: dict[tuple[str, int], int] = {}
            self.clock = 0

        def process(self, record: Record) -> None:
            start = record.timestamp // MINUTE * MINUTE
            self.clock = max(self.clock, record.timestamp)
            first = max(0, self.clock - 5 * MINUTE + 1)
            self.kept = {each: value for each, value in self.kept.items() if each[1] >= first}
            if record.value:
                assert self.windows.put(record.key, record.timestamp, start) == (start >= first)
                if start >= first:
                    self.kept[record.key, start] = record.timestamp
            else:
                assert self.windows.delete(record.key, start) == self.kept.pop(
                    (record.key, start), None
                )
            found = {(key, at): value for key, at, value in self.windows.items()}
            assert found == self.kept
            for key in "ab":
                expected = sorted((at, v) for (k, at), v in self.kept.items() if k == key)
                assert self.windows.fetch(key) == expected
            self.context.forward(record)

    app = Streams("app")
    store = StateStore.windows("w", size="1m", retention="5m", key=str, value=int)
    app.stream("in", bool, key=str).process(Model, name="model", stores=[store]).to("out")
    driver = app.test(batch=batch)

    driver.pipe_all("in", [(key, is_put, time) for key, time, is_put in steps])

    assert len(list(driver.read("out"))) == len(steps)


class Visits:
    """Joins visits that are less than ten seconds apart, in a store of its own."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.visits = context.store("visits")

    def process(self, record: Record) -> None:
        time, count = record.timestamp, record.value
        start = end = time
        for each in self.visits.find(record.key, time - 10_000, time + 10_000):
            assert self.visits.delete(each.key, each.start, each.end) == each.value
            start, end, count = min(start, each.start), max(end, each.end), count + each.value
        assert self.visits.put(record.key, start, end, count) or end < time
        self.context.forward(record.changed(value=[list(each) for each in self.visits.items()]))


def test_sessions_grow_and_outlive_a_restart() -> None:
    app = Streams("app")
    store = StateStore.sessions("visits", retention="10m", key=str, value=int)
    app.stream("in", int, key=str).process(Visits, name="v", stores=[store]).to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 0), ("a", 1, 20_000), ("b", 7, 21_000)])
    driver.restart(from_changelog=True)
    driver.pipe("in", 1, key="a", timestamp=10_000)
    driver.pipe("in", 1, key="a", timestamp=20 * MINUTE)

    found = [record.value for record in driver.read("out")]
    assert found[2] == [["a", 0, 0, 1], ["a", 20_000, 20_000, 1], ["b", 21_000, 21_000, 7]]
    assert found[3] == [["a", 0, 20_000, 3], ["b", 21_000, 21_000, 7]]
    assert found[4] == [["a", 20 * MINUTE, 20 * MINUTE, 1]]


def test_a_session_that_is_too_old_or_ends_before_it_starts_is_refused() -> None:
    class Puts:
        def __init__(self, context: Context) -> None:
            self.context, self.kept = context, context.store("s")

        def process(self, record: Record) -> None:
            start, end = record.value
            is_kept = self.kept.put(record.key, start, end, 1)
            self.context.forward(record.changed(value=is_kept))

    app = Streams("app")
    store = StateStore.sessions("s", retention="1m", key=str, value=int)
    app.stream("in", list, key=str).process(Puts, name="puts", stores=[store]).to("out")
    driver = app.test()

    driver.pipe("in", [0, 1], key="a", timestamp=10 * MINUTE)
    driver.pipe("in", [0, 10 * MINUTE], key="a", timestamp=10 * MINUTE)
    assert [record.value for record in driver.read("out")] == [False, True]
    with pytest.raises(StreamsError, match="from 5 to 4 ends before it starts"):
        driver.pipe("in", [5, 4], key="a", timestamp=10 * MINUTE)


class Prices:
    """Keeps the versions of each price; asks for the one of an earlier time."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.prices = context.store("prices")

    def process(self, record: Record) -> None:
        is_kept = self.prices.put(record.key, record.value or None)
        old = self.prices.as_of(record.key, record.timestamp - 10, "none")
        newest = self.prices.get(record.key, "gone")
        self.context.forward(record.changed(value=[is_kept, old, newest]))


def test_versions_are_found_by_their_times_and_outlive_a_restart() -> None:
    app = Streams("app")
    store = StateStore.versions("prices", retention="1h", key=str, value=int)
    app.stream("in", int, key=str).process(Prices, name="p", stores=[store]).to("out")
    driver = app.test()

    driver.pipe_all("in", [("a", 1, 0), ("a", 2, 20)])
    driver.restart(from_changelog=True)
    driver.pipe_all("in", [("a", 0, 40), ("a", 4, 50)])

    assert [record.value for record in driver.read("out")] == [
        [True, "none", 1],
        [True, 1, 2],
        [True, 2, "gone"],
        [True, "none", 4],
    ]


def test_operators_that_share_windows_share_their_retention() -> None:
    app = Streams("app")
    store = windows()
    app.stream("in", int, key=str).process(Sums, name="one", stores=[store]).to("out")
    app.stream("too", int, key=str).process(Sums, name="two", stores=[store]).to("out")
    driver = app.test()

    driver.pipe("in", 1, key="a", timestamp=2 * HOUR)
    driver.pipe("too", 1, key="a", timestamp=0)

    assert [record.value for record in driver.read("out")][-1] == "too old"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: windows(logged=False), None),
        (
            lambda: StateStore.windows("w", size="1h", retention="1m"),
            "store w: retention='1m' must cover a window of size='1h'",
        ),
        (lambda: StateStore.windows("w", size=0, retention="1m"), "size=0 must be above 0"),
        (lambda: StateStore.sessions("s", retention="-1s"), "retention='-1s' must be above 0"),
        (lambda: StateStore.versions("v", retention="soon"), "'soon' is no duration"),
    ],
)
def test_a_store_says_what_is_wrong_with_its_times(make: Any, words: str | None) -> None:
    if words is None:
        assert make().spec.is_logged is False
    else:
        with pytest.raises(TopologyError, match=words):
            make()


def test_one_name_is_one_kind_of_store() -> None:
    app = Streams("app")
    stream = app.stream("in", int, key=str)
    stream.process(Sums, name="one", stores=[windows()])
    other = StateStore("sums", key=str, value=int)
    with pytest.raises(TopologyError, match="'sums' was declared with other types, times"):
        stream.process(Sums, name="two", stores=[other])


def test_the_changelog_of_windows_is_deleted_after_their_retention() -> None:
    config = windows().spec.changelog_config()
    assert config["cleanup.policy"] == "compact,delete"
    assert int(config["retention.ms"]) == HOUR + 24 * HOUR


class Counts:
    """Counts the records of a key since it was seen last; forwards the count and all keys."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.rows = context.store("rows")

    def process(self, record: Record) -> None:
        if record.value == 0:
            self.context.forward(record.changed(value=[self.rows.delete(record.key), []]))
            return
        self.rows[record.key] = self.rows.get(record.key, 0) + record.value
        assert record.key in self.rows
        found = [self.rows[record.key], [key for key, _ in self.rows.items()]]
        self.context.forward(record.changed(value=found))


def counts_app(ttl: str = "1m") -> Streams:
    app = Streams("app")
    store = StateStore("rows", key=str, value=int, ttl=ttl)
    app.stream("in", int, key=str).process(Counts, name="counts", stores=[store]).to("out")
    return app


def test_a_row_goes_when_its_time_to_live_is_over_and_the_changelog_says_so() -> None:
    driver = counts_app().test()
    driver.pipe("in", 1, key="a", timestamp=0)
    driver.pipe("in", 1, key="b", timestamp=1)
    driver.pipe("in", 1, key="c", timestamp=MINUTE - 1)
    assert driver.store("rows") == {"a": 1, "b": 1, "c": 1}
    driver.pipe("in", 1, key="c", timestamp=MINUTE)
    assert driver.store("rows") == {"b": 1, "c": 2}
    driver.pipe("in", 1, key="b", timestamp=MINUTE + 1)  # it begins anew
    assert [each.value for each in driver.read("out")] == [
        [1, ["a"]], [1, ["a", "b"]], [1, ["a", "b", "c"]], [2, ["b", "c"]], [1, ["b", "c"]],
    ]  # fmt: skip
    log = driver.changelogs["rows"]
    assert (b"a", None, MINUTE) in zip(log.keys, log.values, log.timestamps, strict=True)
    driver.restart(from_changelog=True)
    assert driver.store("rows") == {"b": 1, "c": 2}
    driver.pipe("in", 0, key="c", timestamp=2 * MINUTE)
    assert [each.value for each in driver.read("out")] == [[None, []]]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 5 * MINUTE)),
        max_size=30,
    ),
    st.integers(1, 7),
)
@settings(max_examples=50, deadline=None)
def test_what_lives_depends_on_no_batch_commit_or_restart(
    records: list[tuple[str, int, int]], every: int
) -> None:
    expected: list[Any] = []
    rows: dict[str, tuple[int, int]] = {}
    now = -1
    for key, value, time in records:
        now = max(now, time)
        rows = {each: row for each, row in rows.items() if now - row[1] < MINUTE}
        old = rows.pop(key, (None, 0))[0]
        if value == 0:
            expected.append([old, []])
            continue
        rows[key] = ((old or 0) + value, now)
        expected.append([rows[key][0], sorted(rows)])
    for batch, is_restarting in ((1, False), (every, True)):
        driver = counts_app().test(batch=batch)
        for index in range(0, len(records), every):
            driver.pipe_all("in", records[index : index + every])
            if is_restarting:
                driver.restart(from_changelog=True)
        assert [each.value for each in driver.read("out")] == expected
        assert driver.store("rows") == {key: row[0] for key, row in rows.items()}


def test_operators_with_one_store_share_the_time_that_ends_a_row() -> None:
    app = Streams("app")
    store = StateStore("rows", key=str, value=int, ttl="1m")
    for name in ("one", "two"):
        app.stream(name, int, key=str).process(Counts, name=name, stores=[store]).to(f"{name}-out")
    driver = app.test()
    driver.pipe("one", 1, key="a", timestamp=0)
    driver.pipe("two", 1, key="b", timestamp=MINUTE)
    driver.pipe("one", 1, key="a", timestamp=1)  # the time of the store is that of the other
    assert [each.value for each in driver.read("one-out")] == [[1, ["a"]], [1, ["a", "b"]]]


def test_a_time_to_live_must_be_above_zero() -> None:
    with pytest.raises(TopologyError, match="ttl='0s' must be above 0"):
        StateStore("rows", ttl="0s")
