"""docs/settings.md is made of the rows, and is the one that they make now."""

from __future__ import annotations

from moldau.broker.settings import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from tests.broker.settings.page import PAGE, render


def test_the_page_is_current() -> None:
    told = "run python -m tests.broker.settings.renew"

    assert PAGE.read_text(encoding="ascii") == render(), told


def test_the_page_tells_every_setting() -> None:
    page = render()

    for table in (BROKER_SETTINGS, TOPIC_SETTINGS, GROUP_SETTINGS):
        for row in table:
            assert row.doc in page.replace("\\|", "|")


def test_a_row_of_a_table_has_four_cells() -> None:
    rows = [each for each in render().splitlines() if each.startswith("| `")]

    assert len(rows) == len(TOPIC_SETTINGS) + len(GROUP_SETTINGS) + 3
    assert {each.replace("\\|", "").count("|") for each in rows} == {5}
