"""The goals of all benches, with what was measured: read from the tables under bench/results/."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MARK: Final = "<!-- tables -->"
_GOAL: Final = re.compile(r"- (met|MISSED): `([^`]+)` / `([^`]+)` = (.+), goal (.+)")
_DIRECTION: Final = re.compile(r"\b(higher|lower) is better")
_DAY: Final = re.compile(r"^- (?:machine: )?.*\b(\d{4}-\d\d-\d\d)$")


@dataclass(frozen=True, slots=True)
class Goal:
    """What one table of a bench was to show of two cases, and what it shows."""

    bench: str
    table: str
    case: str
    peer: str
    ratio: str
    goal: str
    is_met: bool
    better: str = ""
    """Which numbers of the table are better: the higher or the lower ones."""
    day: str = ""
    """When it was measured."""


def bench_tables(results: Path) -> list[Goal]:
    """Return the goals that are ratios, in the order of the files."""
    found: list[Goal] = []
    for path in sorted(results.glob("*.md")):
        found += goals(path.stem, path.read_text(encoding="utf-8"))
    return found


def goals(bench: str, text: str) -> Iterator[Goal]:
    table = better = day = ""
    for line in text.splitlines():
        if line.startswith("## "):
            table, better = line.removeprefix("## "), ""
        elif match := _DAY.match(line):
            day = match[1]
        elif match := _DIRECTION.search(line):
            better = match[1]
        elif match := _GOAL.fullmatch(line):
            said, case, peer, ratio, goal = match.groups()
            yield Goal(bench, table, case, peer, ratio, goal, said == "met", better, day)


def render_goals(all_goals: Iterable[Goal]) -> str:
    """A table of them, for the page of the comparison."""
    lines = [
        "| what | better | moldau | beside | ratio | goal | | measured |",
        "|-|-|-|-|-:|-|-|-|",
    ]
    for each in all_goals:
        what = f"[{each.bench}](bench/{each.bench}.md): {each.table}".replace("|", r"\|")
        said = "met" if each.is_met else "MISSED"
        lines.append(
            f"| {what} | {each.better} | {each.case} | {each.peer} | {each.ratio} | {each.goal} "
            f"| {said} | {each.day} |"
        )
    return "\n".join(lines)
