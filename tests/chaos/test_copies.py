"""A few kills of copiers and brokers; `python -m tests.chaos.copies` has 25 and more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.copies import LIBRARIES, run_copy_chaos
from tests.conformance.built import go_program
from tests.peers.apache_kafka import fetch_or_skip

pytestmark = [pytest.mark.real, pytest.mark.deep]

KILLS = int(os.environ.get("MOLDAU_CHAOS_CYCLES", "2"))


def test_a_copy_is_its_source_whoever_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="a peer: make peers")
    fetch_or_skip()
    go_program("copier")
    lines: list[str] = []
    result = run_copy_chaos(
        tmp_path, LIBRARIES, kills=KILLS, records=1600 * KILLS, tell=lines.append
    )
    assert not result.wrong, result.wrong
    assert result.kills == {"copier": (KILLS + 1) // 2, "broker": KILLS // 2}
    assert result.records == 1600 * KILLS
    assert len(lines) == KILLS
