"""Rows that are out of retention stay away after a restart: restored or not, read at once or not.

The stores are those of operators and of users. A restart happens before any record; the app that
never stopped says what is right.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.streams import (
    Context,
    Record,
    StateStore,
    Streams,
    hopping,
    session,
    sliding,
    tumbling,
)

GRACE_MS: Final = 50
WINDOWS: Final[dict[str, Any]] = {
    "tumbling": tumbling(100, grace=GRACE_MS),
    "hopping": hopping(100, advance=30, grace=GRACE_MS),
    "sliding": sliding(100, grace=GRACE_MS),
    "session": session(60, grace=GRACE_MS),
}
STEPS: Final = st.lists(st.sampled_from((0, 1, 5, 30, 60, 150, 400, -20, -60, -160)), max_size=15)
TEXT: Final[Any] = {"key": str, "value": str}


def windows_app(kind: str) -> Streams:
    app = Streams("app")
    windowed = app.stream("in", str, key=str).group_by_key().window(WINDOWS[kind])
    windowed.reduce(lambda so_far, value: so_far + value, name="kept").changes().to("out")
    return app


class Kept:
    """Puts what a record says (`STORE TIME`) into a store, and forwards what the stores hold."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.windows, self.sessions = context.store("windows"), context.store("sessions")
        self.versions = context.store("versions")

    def process(self, record: Record) -> None:
        where, at = record.value.split()
        is_kept = self._put(where, record.key, int(at))
        history = [self.versions.as_of(record.key, time) for time in range(0, 2_000, 50)]
        found = (is_kept, list(self.windows.items()), list(self.sessions.items()), history)
        self.context.forward(record.changed(value=str(found)))

    def _put(self, where: str, key: str, at: int) -> Any:
        match where:
            case "windows":
                return self.windows.put(key, str(at), at)
            case "sessions":
                return self.sessions.put(key, at, at, str(at))
            case "versions":
                return self.versions.put(key, str(at), at)
            case "delete":
                return self.windows.delete(key, at), self.sessions.delete(key, at, at)
        raise AssertionError(where)


def users_app(_: str) -> Streams:
    app = Streams("app")
    stores = [
        StateStore.windows("windows", size=50, retention=200, **TEXT),
        StateStore.sessions("sessions", retention=200, **TEXT),
        StateStore.versions("versions", retention=200, **TEXT),
    ]
    lines = app.stream("in", str, key=str)
    lines.process(Kept, name="kept-by", stores=stores, key=str, type=str).to("out")
    return app


def pipe(drivers: tuple[Any, ...], value: str, time: int) -> None:
    for driver in drivers:
        driver.pipe("in", value, key="a", timestamp=time)


def check_same(drivers: tuple[Any, ...], stores: tuple[str, ...]) -> None:
    whole, restarted = drivers
    for store in stores:
        assert restarted.store(store) == whole.store(store)
    assert [tuple(each) for each in restarted.read("out")] == [
        tuple(each) for each in whole.read("out")
    ]


def both(make: Callable[[str], Streams], kind: str) -> tuple[Any, ...]:
    return make(kind).test(), make(kind).test()


@pytest.mark.parametrize("from_changelog", [False, True])
@pytest.mark.parametrize("kind", WINDOWS)
@given(steps=STEPS, at=st.sets(st.integers(0, 14), max_size=3))
@settings(max_examples=60, deadline=None)
def test_windows_that_were_dropped_stay_away_after_a_restart(
    kind: str, from_changelog: bool, steps: list[int], at: set[int]
) -> None:
    drivers, time = both(windows_app, kind), 0
    for number, step in enumerate(steps):
        time = max(0, time + step)
        pipe(drivers, chr(97 + number), time)
        if number in at:
            drivers[1].restart(from_changelog=from_changelog)
        check_same(drivers, ("kept",))


PUTS: Final = st.lists(
    st.tuples(
        st.sampled_from(("windows", "sessions", "versions", "delete")),
        st.sampled_from((0, 5, 60, 150, 400, -60)),
        st.sampled_from((0, 0, 20, 120, -30, -150, -300)),
    ),
    max_size=15,
)


@pytest.mark.parametrize("from_changelog", [False, True])
@given(puts=PUTS, at=st.sets(st.integers(0, 14), max_size=3))
@settings(max_examples=200, deadline=None)
def test_stores_of_users_have_the_time_that_they_had_before_a_restart(
    from_changelog: bool, puts: list[tuple[str, int, int]], at: set[int]
) -> None:
    drivers, time = both(users_app, ""), 0
    for number, (where, step, beside) in enumerate(puts):
        time = max(0, time + step)
        pipe(drivers, f"{where} {max(0, time + beside)}", time)
        if number in at:
            drivers[1].restart(from_changelog=from_changelog)
        check_same(drivers, ("windows", "sessions", "versions"))
