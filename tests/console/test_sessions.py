"""Sessions and sealed texts: when they end, and what is refused."""

from __future__ import annotations

import pytest

from moldau.console.access import sessions
from moldau.console.access.roles import Login
from moldau.console.access.sessions import IDLE_S, LOGIN_S, LONGEST_S, Seal, Sessions

ANN = Login("ann")


class Counter:
    """Bytes that are different each time."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, size: int) -> bytes:
        self.count += 1
        return self.count.to_bytes(size, "big")


def test_a_session_ends_when_it_is_idle_closed_or_too_old() -> None:
    found = Sessions(Counter())
    idle, closed, old = (found.open(ANN, 0.0) for _ in range(3))
    assert found.find(idle, IDLE_S - 1) == ANN
    assert found.find(idle, 2 * IDLE_S - 2) == ANN
    assert found.find(idle, 3 * IDLE_S) is None
    found.close(closed)
    assert found.find(closed, 1.0) is None
    at = 0.0
    while at < LONGEST_S:
        assert found.find(old, at) == ANN
        at += IDLE_S / 2
    assert found.find(old, at) is None
    assert found.find("none", 0.0) is found.find("\ud800", 0.0) is None


def test_the_oldest_session_ends_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    found = Sessions(Counter())
    first, *others = (found.open(ANN, 0.0) for _ in range(3))
    assert found.find(first, 1.0) is None
    assert [found.find(each, 1.0) for each in others] == [ANN, ANN]


def test_a_sealed_text_is_opened_for_a_while_by_the_key_that_closed_it() -> None:
    seal = Seal(b"key")
    text = seal.closed({"state": "a"}, 0.0)
    assert seal.opened(text, LOGIN_S - 1) == {"state": "a"}
    assert seal.opened(text, LOGIN_S) is None
    assert Seal(b"other").opened(text, 1.0) is None


@pytest.mark.parametrize("text", ["", ".", "a.b", "e30=.x", "\ud800.\ud800", "\xe9.\xe9"])
def test_a_text_that_nothing_has_sealed_is_not_opened(text: str) -> None:
    assert Seal(b"key").opened(text, 0.0) is None
