"""docs/streams.md: every block of Python runs as it stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.client.guides import programs

GUIDE = "streams.md"


@pytest.mark.parametrize("number", range(len(programs(GUIDE))))
def test_a_program_of_the_guide_runs(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(programs(GUIDE)) >= 6
    program = programs(GUIDE)[number]
    if "deltalake" in program:
        pytest.importorskip("deltalake", reason="a lake needs deltalake, which `make peers` brings")

    exec(compile(program, f"{GUIDE}, program {number + 1}", "exec"), {"__name__": "guide"})  # noqa: S102
