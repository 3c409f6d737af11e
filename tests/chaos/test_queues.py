"""A few kills of share consumers and brokers; `python -m tests.chaos.queues` has 25 and more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.queues import Crew, run_queue_chaos
from tests.peers.apache_kafka import fetch_or_skip

pytestmark = [pytest.mark.real, pytest.mark.deep]

CYCLES = int(os.environ.get("MOLDAU_CHAOS_CYCLES", "2"))


def test_a_queue_loses_nothing_whoever_is_killed(tmp_path: Path) -> None:
    lines: list[str] = []
    crew = Crew(ours=1, java=1, consumers=2)
    result = run_queue_chaos(
        tmp_path, fetch_or_skip(), crew, cycles=CYCLES, messages=2000 * CYCLES, tell=lines.append
    )
    assert not result.wrong, result.wrong
    assert result.cycles == CYCLES == len(lines)
    assert result.messages >= 2000 * CYCLES
    assert result.kills == {"consumers": (CYCLES + 1) // 2, "broker": CYCLES // 2}
    assert result.done["ours"] > 0
    assert result.done["java"] > 0
