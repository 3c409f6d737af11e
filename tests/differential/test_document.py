"""docs/compatibility.md says what the table of differences says."""

from __future__ import annotations

from tests.differential import document
from tests.differential.explained import ON_PURPOSE
from tests.differential.log_files import NOT_COMPARED


def test_the_page_is_the_tables() -> None:
    kept = document.PATH.read_text(encoding="utf-8")
    assert kept == document.text(), "run `python -m tests.differential document`"


def test_every_row_says_what_and_why() -> None:
    for row in ON_PURPOSE:
        assert row.what.endswith("."), row
        assert row.why.endswith("."), row
        assert "|" not in row.what + row.why, row


def test_the_page_says_what_is_not_compared_of_files() -> None:
    kept = document.PATH.read_text(encoding="utf-8")
    for what, why in NOT_COMPARED.items():
        assert what.partition(":")[0] in kept
        assert why in kept
        assert why.endswith("."), what
