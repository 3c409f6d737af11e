"""Offsets of one partition that are deleted while the app is stopped: no worker starts."""

from __future__ import annotations

import pytest

from tests.streams.simulation.lost_offsets import LOST, refusals


def test_workers_do_not_start_without_the_offsets_of_one_partition() -> None:
    first, second = refusals(1, LOST)
    assert f"store=counts: it has rows and its group has no offsets of {LOST}" in first
    assert second == first


@pytest.mark.deep
def test_workers_that_have_all_offsets_start_again_and_count_once() -> None:
    assert refusals(1) == []
