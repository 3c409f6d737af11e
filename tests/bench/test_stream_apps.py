"""The apps of the bench `streams` do what its peers do."""

from __future__ import annotations

import random

import pytest

from bench import stream_apps
from bench.stream_bare import counting, scoring
from bench.streams import order
from moldau.streams import Streams


def outputs(app: Streams, *, other: bool = False) -> list[tuple[object, object]]:
    """What comes out of an app for three orders of two users."""
    driver = app.test()
    for second, user in enumerate(("ada", "bob", "ada")):
        for topic in ("in", "other") if other else ("in",):
            value = order(user, second, random.Random(1))
            driver.pipe_bytes(topic, value, key=user.encode(), timestamp=second * 1000)
    return [(each.key, each.value) for each in driver.read(stream_apps.OUT)]


def test_an_order_is_of_150_bytes() -> None:
    assert len(order("user-0000001", 1_000, random.Random(0))) == pytest.approx(150, abs=15)


@pytest.mark.parametrize("app", [stream_apps.count, stream_apps.windowed])
def test_orders_are_counted(app: Streams) -> None:
    assert outputs(app) == [("ada", 1), ("bob", 1), ("ada", 2)]


def test_orders_are_priced() -> None:
    found = outputs(stream_apps.stateless)

    assert [key for key, _ in found] == ["ada", "bob", "ada"]
    assert {value.country for _, value in found if isinstance(value, stream_apps.Priced)} == {"DE"}


def test_the_bare_processes_do_what_the_apps_do() -> None:
    users = ["mark-0-0", "ada", "bob"]
    values = [order(user, 0, random.Random(1)) for user in users]
    driver = stream_apps.scoring.test()
    for user, value in zip(users, values, strict=True):
        driver.pipe_bytes("in", value, key=user.encode(), timestamp=0)

    keys, found = scoring()([user.encode() for user in users], values)

    assert keys == [b"mark-0-0"]
    written = driver.read_bytes(stream_apps.OUT)
    assert [(key, value) for key, value, _, _ in written] == list(zip(keys, found, strict=True))


def test_a_bare_count_comes_out_although_no_more_records_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("bench.stream_bare.time.monotonic", lambda: now)
    work = counting()
    value = order("ada", 0, random.Random(1))

    assert work([b"ada", b"ada"], [value, value]) == ([], [])
    now = 1.0

    assert work([], []) == ([b"ada"], [b"2"])


def test_orders_of_two_topics_meet() -> None:
    keys = [key for key, _ in outputs(stream_apps.join, other=True)]

    assert sorted(str(key) for key in keys) == ["ada"] * 4 + ["bob"]
