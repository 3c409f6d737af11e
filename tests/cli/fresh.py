"""`moldau` in fresh processes, as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cli.shell import Done


def moldau(
    *words: str, bootstrap: str | None = None, source: str = "", directory: Path | None = None
) -> Done:
    """Run the command to its end. `bootstrap` is the cluster of its environment."""
    environment = {name: text for name, text in os.environ.items() if name != "MOLDAU_BOOTSTRAP"}
    if bootstrap is not None:
        environment["MOLDAU_BOOTSTRAP"] = bootstrap
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "moldau.cli", *words],
        input=source, capture_output=True, text=True, check=False, timeout=60, env=environment,
        cwd=directory,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def documents(lines: str) -> list[dict[str, Any]]:
    """The JSON documents of lines."""
    return [json.loads(line) for line in lines.splitlines()]


def lines_of(among: Sequence[object]) -> str:
    """Lines of JSON."""
    return "".join(f"{json.dumps(each)}\n" for each in among)
