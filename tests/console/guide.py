"""The blocks of docs/console.md."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = (Path(__file__).parents[2] / "docs" / "console.md").read_text(encoding="utf-8")


def block(kind: str, part: str) -> str:
    """The one block of this kind that has this text."""
    found = re.findall(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL)
    (only,) = [each for each in found if part in each]
    return str(only)
