"""docs/security-rights.md is the one that the table of APIs makes now."""

from __future__ import annotations

from moldau.broker.api.handlers import APIS
from tests.broker.api.rights_page import NOTES, PAGE, render


def test_the_page_is_the_one_that_the_table_makes() -> None:
    assert PAGE.read_text(encoding="utf-8") == render()


def test_a_note_is_about_an_api_of_the_table() -> None:
    assert set(NOTES) <= set(APIS)
    assert not [key for key in NOTES if f"| {key} |" not in render()]
