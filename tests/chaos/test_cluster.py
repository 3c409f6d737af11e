"""A few faults of a real cluster under load; `make chaos NODES=3` has as many as one likes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.cluster import run_cluster_chaos

pytestmark = [pytest.mark.real, pytest.mark.deep]

CYCLES = int(os.environ.get("MOLDAU_CHAOS_CYCLES", "2"))


def test_a_cluster_loses_nothing_whatever_happens_to_its_nodes(tmp_path: Path) -> None:
    lines: list[str] = []
    result = run_cluster_chaos(tmp_path, seed=5, cycles=CYCLES, tell=lines.append, rate=100)
    assert result.cycles == CYCLES == len(lines)
    assert not result.anomalies, "\n".join(map(str, result.anomalies[:20]))
    assert all(count > 50 for count in result.acknowledged.values()), result.acknowledged
    assert result.records >= sum(result.acknowledged.values())
