"""The number of cores that a process may use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from moldau.runtime import children
from moldau.runtime.children import core_count
from tests.runtime.one_thread import patch_here


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (None, 8),
        ("max 100000\n", 8),
        ("250000 100000\n", 3),
        ("50000 100000\n", 1),
        ("1600000 100000\n", 8),
        ("unreadable", 8),
    ],
)
def test_a_limit_of_cpu_is_a_number_of_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, count: int
) -> None:
    limit = tmp_path / "cpu.max"
    if text is not None:
        limit.write_text(text)
    monkeypatch.setattr(children, "_CPU_MAX", str(limit))
    patch_here(monkeypatch, os, "cpu_count", lambda: 8)
    if sys.platform == "linux":
        patch_here(monkeypatch, os, "sched_getaffinity", lambda _: set(range(8)))
    assert core_count() == count
