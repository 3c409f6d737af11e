"""The blocks of docs/pipelines.md."""

from __future__ import annotations

import re
from pathlib import Path

GUIDE = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]
