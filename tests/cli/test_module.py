"""`python -m moldau`: the namespace has no `__init__.py`, and still runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["moldau", "moldau.cli"])
def test_the_module_is_the_command(module: str, tmp_path: Path) -> None:
    said = subprocess.check_output(  # noqa: S603
        [sys.executable, "-m", module, "--version"], cwd=tmp_path, text=True, timeout=60
    )

    assert said.startswith("moldau ")
