"""The guide's own code, run as it stands; and with the bug that the guide says would be found."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from moldau.runtime.simulated import SimulationFailed

GUIDE = Path(__file__).parents[3] / "docs" / "simulation.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_guides_code_runs() -> None:
    assert len(blocks()) == 5
    exec(compile("\n".join(blocks()), "simulation.md", "exec"), {})  # noqa: S102


def test_a_counter_that_does_not_sync_is_found() -> None:
    durable = "await runtime.run_blocking(files.write_text_atomic, PATH, str(mine))"
    source = "\n".join(blocks())
    assert durable in source
    source = source.replace(durable, "write_carelessly(files, PATH, str(mine))")
    code = compile(source, "simulation.md", "exec")
    with pytest.raises((AssertionError, SimulationFailed), match="seed"):
        exec(code, {"write_carelessly": write_carelessly})  # noqa: S102


def write_carelessly(files: Any, path: str, text: str) -> None:
    with files.open(path, "write") as file:
        file.truncate(0)
        file.write_at(0, text.encode())
