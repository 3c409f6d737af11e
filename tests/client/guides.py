"""The programs of a guide: what stands in its blocks of Python, run in their order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parents[2] / "docs"


def text_of(guide: str) -> str:
    return (DOCS / guide).read_text(encoding="utf-8")


def programs(guide: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text_of(guide), re.DOTALL)


def run_programs(guide: str, addresses: Mapping[str, str]) -> None:
    """Each by itself; what it says is an address is replaced by what runs there now."""
    for number, program in enumerate(programs(guide)):
        whole = program
        for said, real in addresses.items():
            whole = whole.replace(said, real)
        exec(compile(whole, f"{guide}, program {number + 1}", "exec"), {})  # noqa: S102
