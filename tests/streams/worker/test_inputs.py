"""When an input counts as deleted."""

from __future__ import annotations

import pytest

from moldau.runtime import Runtime
from moldau.runtime.real import run
from moldau.streams.problems import InputDeleted
from moldau.streams.worker.door import Door
from moldau.streams.worker.inputs import GONE_S, LOOK_S, InputWatch
from moldau.streams.worker.settings import app_settings
from moldau.streams.worker.worker import existing
from moldau.testing import SyncEmbeddedBroker


def watch() -> InputWatch:
    watched = InputWatch("app", ["lines", "orders"])
    watched.doubt(100.0)
    return watched


def test_an_input_that_stays_away_is_deleted_after_some_seconds() -> None:
    watched = watch()
    now = 100.0
    while now < 100.0 + GONE_S:
        assert watched.is_due(now)
        watched.on_look({"lines"}, now)
        assert not watched.is_due(now)
        now += LOOK_S
    with pytest.raises(InputDeleted) as found:
        watched.on_look({"lines"}, now)
    assert found.value.topics == ("orders",)


def test_a_broker_may_learn_of_an_input_late() -> None:
    watched = watch()
    watched.on_look({"lines"}, 100.0)
    watched.on_look({"lines", "orders"}, 100.0 + GONE_S)
    assert not watched.is_doubted
    watched.doubt(200.0)
    watched.on_look({"lines"}, 200.0)
    assert watched.is_doubted, "the time counts from here"


def test_a_failed_look_says_nothing() -> None:
    watched = watch()
    for now in (100.0, 100.0 + GONE_S, 100.0 + 2 * GONE_S):
        watched.on_look(None, now)
        assert watched.is_doubted
        assert not watched.is_due(now)
    watched.on_look(set(), 200.0)
    watched.on_look(None, 200.0 + GONE_S)
    with pytest.raises(InputDeleted):
        watched.on_look(set(), 201.0 + GONE_S)


def test_a_look_without_a_broker_fails_soon_and_quietly() -> None:
    async def scenario(runtime: Runtime) -> None:
        broker = SyncEmbeddedBroker()
        broker.start()
        try:
            given = app_settings({"bootstrap.servers": broker.bootstrap_servers})
            door = Door(given, "app", "app-0", runtime)
            await door.start()
            assert await existing(door, ["lines"]) == {}
        finally:
            broker.stop()
        try:
            assert await existing(door, ["lines"]) is None
        finally:
            await door.aclose()

    run(scenario)
