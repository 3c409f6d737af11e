"""Pages of results: a section for each row, so that a row can be measured anew alone."""

from __future__ import annotations

import re
from pathlib import Path

_HEADING = re.compile(r"^(?=## )", re.MULTILINE)


def merged(before: str, page: str, *, told: str) -> str:
    """The page `before` with the sections of `page` in the place of those of the same title; new
    ones come last. `told` says in each of them how it was measured."""
    if not before:
        return page
    head, *kept = _HEADING.split(before)
    sections = {_title(section): section for section in kept}
    for section in _HEADING.split(page)[1:]:
        sections[_title(section)] = f"{section.rstrip()}\n- {told}\n"
    return "\n\n".join(text.rstrip() for text in (head, *sections.values())) + "\n"


def write(path: Path, page: str) -> None:
    """Keep a page; a process that is killed meanwhile leaves the page before."""
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(page, encoding="utf-8")
    beside.replace(path)


def _title(section: str) -> str:
    return section.partition("\n")[0]
