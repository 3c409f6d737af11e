"""What a new run changed beside the committed results: `python -m bench --quick` and the gate.

Two machines differ by more than a regression does, so a change of a rate is a finding for people.
The calls of the ten walks (bench/walks.py) are the same everywhere: those are the gate, which a
test holds.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

QUICK: Final = Path(__file__).parent / "quick.toml"
WORSE_MAX: Final = 0.10
"""A part of the committed value."""
_TITLE: Final = re.compile(r"^## (.*)$")
_VERDICT: Final = re.compile(r"^- (?:met|MISSED): (.*) = ([\d.,]+), goal (>=|<=) ")
_WALK: Final = re.compile(r"^\| ([^|]+) \| (\d+) \|")


@dataclass(frozen=True, slots=True)
class Row:
    """A measured value that has a goal."""

    value: float
    higher_is_better: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A row of a new run beside the committed one."""

    name: str
    before: float
    now: float
    worse: float
    """By what part of the committed value it is worse; negative if it is better."""

    @property
    def is_regression(self) -> bool:
        """Whether it is worse by more than WORSE_MAX."""
        return self.worse > WORSE_MAX


def quick_rows() -> dict[str, list[str]]:
    """Return what a quick run measures: by area, the beginnings of the titles of its tables."""
    found: dict[str, list[str]] = tomllib.loads(QUICK.read_text(encoding="utf-8"))
    return found


def rows_of(page: str) -> dict[str, Row]:
    """Return the rows of a page that have goals, by title and cases."""
    found: dict[str, Row] = {}
    title = ""
    for line in page.splitlines():
        if heading := _TITLE.match(line):
            title = heading[1]
        elif verdict := _VERDICT.match(line):
            value = float(verdict[2].replace(",", ""))
            found.setdefault(f"{title}: {verdict[1]}", Row(value, verdict[3] == ">="))
    return found


def calls_of(page: str) -> dict[str, Row]:
    """Return the calls of each walk, of the page of bench/walks.py."""
    found = map(_WALK.match, page.splitlines())
    return {each[1]: Row(float(each[2]), higher_is_better=False) for each in found if each}


def changes(before: Mapping[str, Row], now: Mapping[str, Row]) -> list[Change]:
    """Compare the rows that both have, the worst first."""
    found = [
        Change(name, before[name].value, row.value, _worse(before[name], row.value))
        for name, row in now.items()
        if name in before and before[name].value
    ]
    return sorted(found, key=lambda each: -each.worse)


def change_table(found: list[Change]) -> str:
    """Return changes as a table, the worst first."""
    lines = ["| row | committed | now | worse by |", "|-|-:|-:|-:|"]
    lines += [
        f"| {each.name} | {each.before:,.4g} | {each.now:,.4g} | {each.worse:+.0%} |"
        for each in found
    ]
    return "\n".join(lines)


def _worse(before: Row, now: float) -> float:
    change = (now - before.value) / before.value
    return -change if before.higher_is_better else change
