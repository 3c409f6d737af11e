"""Pages of results: one section for each table, so that a table can be measured again alone."""

from __future__ import annotations

import re
from pathlib import Path

_HEADING = re.compile(r"^(?=## )", re.MULTILINE)
_UNIT = re.compile(r"^(.*?), (?:higher|lower) is better", re.MULTILINE)


def merged(before: str, page: str, *, told: str) -> str:
    """Return the page `before` with its sections replaced by those of `page` with the same titles;
    new sections come last. `told` says in each of them how it was measured."""
    if not before:
        return page
    head, *kept = _HEADING.split(before)
    sections = {_title(section): section for section in kept}
    for section in _HEADING.split(page)[1:]:
        sections[_title(section)] = f"{section.rstrip()}\n- {told}\n"
    return "\n\n".join(text.rstrip() for text in (head, *sections.values())) + "\n"


def median_in(page: str, title: str, case: str) -> tuple[float, str]:
    """Return the median of a case and its unit, as the table with that title has them. Raise
    LookupError if it is not there."""
    for section in _HEADING.split(page):
        if _title(section) != f"## {title}":
            continue
        unit = _UNIT.search(section)
        row = re.search(rf"^\| {re.escape(case)} \| ([\d.,]+) \|", section, re.MULTILINE)
        if unit is not None and row is not None:
            return float(row[1].replace(",", "")), unit[1]
    raise LookupError(f"no row {case!r} in a table {title!r}")


def write(path: Path, page: str) -> None:
    """Write a page. If the process is killed meanwhile, the page before stays."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(page, encoding="utf-8")
    beside.replace(path)


def _title(section: str) -> str:
    return section.partition("\n")[0]
