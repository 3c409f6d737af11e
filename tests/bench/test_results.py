"""The committed results: numbers as people read them, and what bounds each goal that was missed."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from bench.__main__ import MISSED, RESULTS, reasons_of
from bench.pages import median_in

PAGES = sorted(RESULTS.glob("*.md"))
_PREFIXED = re.compile(r"(?:\||=) [\d.]+ [GMkmun](?: \||,|$)")


def missed_titles(page: str) -> list[tuple[str, str]]:
    """The title of each table with a missed goal, and the line after that goal."""
    found, title = [], ""
    for line, following in pairwise([*page.splitlines(), ""]):
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif line.startswith("- MISSED"):
            found.append((title, following))
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_missed_goal_says_what_bounds_it(path: Path) -> None:
    reasons = reasons_of(path.stem)
    for title, following in missed_titles(path.read_text(encoding="utf-8")):
        assert following == f"  {reasons.get(title)}", title


def test_each_sentence_is_of_a_goal_that_is_missed() -> None:
    written = tomllib.loads(MISSED.read_text(encoding="utf-8"))
    for area, reasons in written.items():
        page = (RESULTS / f"{area}.md").read_text(encoding="utf-8")
        assert set(reasons) == {title for title, _ in missed_titles(page)}, area


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_numbers_have_no_prefix(path: Path) -> None:
    assert _PREFIXED.findall(path.read_text(encoding="utf-8")) == []


def test_a_median_is_read_with_its_unit() -> None:
    page = "# a\n\n## T\n\nMB/s, higher is better; median of 3.\n\n| ours | 1,406 | 3% | 1.00 |\n"
    assert median_in(page, "T", "ours") == (1406.0, "MB/s")
    with pytest.raises(LookupError):
        median_in(page, "T", "theirs")
