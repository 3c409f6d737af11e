"""Amounts in messages: one is no plural, and no page or message has a plural of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from moldau.errors.amounts import counted
from tests.architecture.sources import ROOT

NOUNS: Final = (
    "broker|node|partition|topic|record|group|replica|member|transaction|rule|worker|task"
)
PLURAL: Final = re.compile(rf" ({NOUNS})s\b")
PAGES: Final = ROOT / "platform" / "moldau" / "console" / "templates"
COMMANDS: Final = ROOT / "platform" / "moldau" / "cli" / "commands"
IN_A_PAGE: Final = re.compile(rf"\| (?:number|length) }}}}(?:</b>)? ({NOUNS})s\b")


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (20_000, "20,000 nodes")]
)
def test_an_amount_has_the_noun_for_its_number(count: int, text: str) -> None:
    assert counted(count, "node") == text


def test_a_plural_may_be_another_word() -> None:
    assert counted(1, "record was", "records were") == "1 record was"
    assert counted(3, "record was", "records were") == "3 records were"


def plurals(text: str) -> Iterator[str]:
    """Yield the f-strings with a count that is computed, and a fixed plural behind it."""
    for each in ast.walk(ast.parse(text)):
        if not isinstance(each, ast.JoinedStr):
            continue
        for value, behind in zip(each.values, each.values[1:], strict=False):
            is_text = isinstance(behind, ast.Constant) and PLURAL.match(str(behind.value))
            counts = isinstance(value, ast.FormattedValue) and "len(" in ast.unparse(value.value)
            if is_text and counts:
                yield ast.unparse(each)


def test_commands_and_pages_count_with_the_right_noun() -> None:
    found = {
        path.name: [*plurals(path.read_text("utf-8"))]
        for path in COMMANDS.glob("*.py")
        if any(plurals(path.read_text("utf-8")))
    }
    shown = {path.name: IN_A_PAGE.findall(path.read_text("utf-8")) for path in PAGES.glob("*.html")}
    assert found == {}
    assert {name: nouns for name, nouns in shown.items() if nouns} == {}
    assert [*plurals('f"restarted {len(nodes)} nodes"')], "a planted one is found"
    assert IN_A_PAGE.findall("{{ a | length | number }}</b> brokers"), "and in a page"
