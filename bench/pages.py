"""Pages of results: one section for each table, so that a table can be measured again alone."""

from __future__ import annotations

import re
from pathlib import Path

_HEADING = re.compile(r"^(?=## )", re.MULTILINE)


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


def write(path: Path, page: str) -> None:
    """Write a page. If the process is killed meanwhile, the page before stays."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(page, encoding="utf-8")
    beside.replace(path)


def _title(section: str) -> str:
    return section.partition("\n")[0]
