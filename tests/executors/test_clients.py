"""What a Python worker of Spark keeps from task to task, and when it drops it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from moldau.client.sync import Admin, Consumer
from moldau.executors import clients as kept
from moldau.executors.clients import CLIENTS, IdleCache, cached_client
from moldau.testing import SyncEmbeddedBroker


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A clock that is set by hand."""
    found = SimpleNamespace(now_s=0.0)
    found.monotonic = lambda: found.now_s
    monkeypatch.setattr(kept, "here", lambda: found)
    return found


@pytest.fixture
def clients() -> Iterator[None]:
    yield
    CLIENTS.clear()


def test_what_no_task_has_used_for_ten_minutes_is_dropped(clock: SimpleNamespace) -> None:
    dropped: list[str] = []
    things = IdleCache[str](dropped.append)
    for name in "abc":
        things.put(name, name)

    clock.now_s = 599
    things.drop_idle()
    assert (things.get("a"), things.put("b", "new"), dropped) == ("a", "new", ["b"])
    clock.now_s = 600
    things.drop_idle()
    assert (dropped, len(things)) == (["b", "c"], 2)

    things.drop_if(lambda each: each == "a")
    things.clear()
    assert (dropped, len(things)) == (["b", "c", "a", "new"], 0)


@pytest.mark.usefixtures("clients")
def test_a_client_is_used_again_until_it_is_closed(moldau_broker: SyncEmbeddedBroker) -> None:
    settings = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    first = cached_client(Admin, settings)

    assert cached_client(Admin, dict(settings)) is first
    cached_client(Consumer, settings)
    assert len(CLIENTS) == 2
    first.close()
    second = cached_client(Admin, settings)
    assert second is not first
    CLIENTS.clear()
    assert second.is_over
