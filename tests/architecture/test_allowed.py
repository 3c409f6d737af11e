"""The allow-list may only shrink, and only names rules that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.architecture.allowed import FILE, Found, problems


@pytest.mark.parametrize(
    ("found", "entries", "wrong"),
    [
        ({}, {}, []),
        ({"a": "uses time"}, {"a": "the outermost function"}, []),
        ({"a": 900}, {"a": 900}, []),
        ({"a": "uses time"}, {}, ["a: uses time"]),
        ({"a": 901}, {"a": 900}, ["a: now 901, allowed.toml says 900"]),
        ({"a": 899}, {"a": 900}, ["a: now 899, allowed.toml says 900"]),
        ({"a": "uses time"}, {"a": " "}, ["a: its entry in allowed.toml gives no reason"]),
        (
            {},
            {"a": 900},
            ["a: allowed.toml allows it, but nothing needs that any more: take the entry out"],
        ),
    ],
)
def test_what_is_new_grown_shrunk_unreasoned_or_stale_is_told(
    found: Found, entries: Found, wrong: list[str]
) -> None:
    assert problems(found, entries) == wrong


def test_every_table_of_the_list_belongs_to_a_rule() -> None:
    used: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        used |= set(re.findall(r'\b(?:check|allowed)\(\s*"(\w+)"', path.read_text()))

    assert set(tomllib.loads(FILE.read_text())) <= used
