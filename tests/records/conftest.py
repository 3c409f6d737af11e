"""Every test that asks for `records` or `kernel` runs once an edition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.records.editions import edition


@pytest.fixture(params=["compiled", "pure"])
def modules(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The modules of one edition of moldau.records."""
    return edition(request.param)


@pytest.fixture
def records(modules: dict[str, Any]) -> Any:
    """The package."""
    return modules[""]


@pytest.fixture
def kernel(modules: dict[str, Any]) -> Any:
    """`_speed` or `_pure`."""
    return modules["kernel"]
