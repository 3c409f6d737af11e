"""A fault of the past, planted in the workers of apps, is found by the pairs."""

from __future__ import annotations

import pytest

from tests.streams.pairs.suite import FAULTS, SUITE

pytestmark = [pytest.mark.real, pytest.mark.deep, pytest.mark.hunt]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    assert SUITE.finds(fault)
