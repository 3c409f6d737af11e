"""The reference page is made of the docstrings, and leaves nothing out."""

from __future__ import annotations

import moldau.streams
from tests.streams.reference import PAGE, render


def test_the_page_is_that_of_the_docstrings() -> None:
    assert PAGE.read_text() == render(), "python -m tests.streams.reference"


def test_every_public_name_is_on_it() -> None:
    text = PAGE.read_text()

    missing = [
        name
        for name in moldau.streams.__all__
        if f"## {name}\n" not in text and f"### `{name}" not in text
    ]

    assert missing == []
