"""`moldau connect`, run to its end, and refusals of the REST API."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def refused(answer: tuple[int, Any], status: int, words: str) -> None:
    assert answer[0] == status, answer
    assert answer[1]["error_code"] == status
    assert words in answer[1]["message"]


def connect(
    *words: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`moldau connect`, to its end."""
    import os

    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", "from moldau.cli import main; exit(main())", "connect", *words],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, **(environment or {})},
    )
