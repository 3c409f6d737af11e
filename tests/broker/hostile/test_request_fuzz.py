"""A short search of `request_fuzz`, which searches longer by its command."""

from __future__ import annotations

import pytest

from tests.broker.hostile.request_fuzz import search

pytestmark = [pytest.mark.real, pytest.mark.deep]


def test_changed_requests_before_and_after_a_login_do_no_harm() -> None:
    found = search(seconds=5, seed=1)
    assert not found.findings
    assert found.requests >= 200
    assert found.answered
