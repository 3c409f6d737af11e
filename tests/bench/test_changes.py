"""A new run beside the committed results: what is worse, and by how much."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from bench.__main__ import RESULTS, tables_of
from bench.changes import Row, calls_of, change_table, changes, quick_rows, rows_of

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = """# a

## Speed

| case | median | spread | / theirs |
|-|-:|-:|-:|
| ours | 1,500 | 3% | 1.50 |

- met: `ours` = 1,500, goal >= 1,000
- MISSED: `ours` / `theirs` = 1.5, goal >= 2
  The peer is quick.

## Cost

- met: `ours` / `theirs` = 0.5, goal <= 0.6
"""


def test_rows_are_those_with_goals() -> None:
    assert rows_of(PAGE) == {
        "Speed: `ours`": Row(1500.0, higher_is_better=True),
        "Speed: `ours` / `theirs`": Row(1.5, higher_is_better=True),
        "Cost: `ours` / `theirs`": Row(0.5, higher_is_better=False),
    }


def test_the_worst_change_comes_first_in_the_direction_of_its_goal() -> None:
    now = rows_of(PAGE.replace("= 1.5,", "= 1.38,").replace("= 0.5,", "= 0.54,"))
    found = changes(rows_of(PAGE), now)
    assert [(each.name, round(each.worse, 2)) for each in found] == [
        ("Speed: `ours` / `theirs`", 0.08),
        ("Cost: `ours` / `theirs`", 0.08),
        ("Speed: `ours`", 0.0),
    ]
    assert not any(each.is_regression for each in found)
    (slower,) = changes({"x": Row(100, higher_is_better=False)}, {"x": Row(111, False)})
    assert slower.is_regression
    assert "| x | 100 | 111 | +11% |" in change_table([slower])


def test_a_row_that_only_one_run_has_is_not_compared() -> None:
    assert changes(rows_of(PAGE), {"Other: `ours`": Row(1, higher_is_better=True)}) == []


@pytest.mark.parametrize("area", quick_rows())
def test_quick_rows_name_committed_tables(area: str) -> None:
    module = importlib.import_module(f"bench.{area}")
    page = (RESULTS / f"{area}.md").read_text(encoding="utf-8")
    if tables_of(module) is None:
        assert calls_of(page)
    for row in quick_rows()[area]:
        assert f"\n## {row}" in page, row


@pytest.mark.deep
@pytest.mark.real
def test_no_walk_has_a_tenth_more_calls_than_its_page_says() -> None:
    command = [sys.executable, "-m", "bench", "walks", "--quick"]
    ended = subprocess.run(  # noqa: S603 - our own command
        command, cwd=ROOT, capture_output=True, text=True
    )
    assert "| walks: a page of the console |" in ended.stdout, ended.stderr
    said = f"{ended.stdout}\nif it must be: python -m bench walks --write"
    assert ended.returncode == 0, said
