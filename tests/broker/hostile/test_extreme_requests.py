"""A short search of `request_fuzz` with whole requests; it searches longer by its command."""

from __future__ import annotations

import pytest

from tests.broker.hostile.request_fuzz import BROKER, CONTROLLER, EXTREME, search

pytestmark = pytest.mark.real


@pytest.mark.parametrize("listener", [BROKER, CONTROLLER])
def test_whole_requests_with_values_at_their_edges_are_answered(listener: str) -> None:
    found = search(seconds=3, seed=1, mutator=EXTREME, listener=listener)
    assert not found.findings
    assert found.requests >= 100
    assert found.answered
