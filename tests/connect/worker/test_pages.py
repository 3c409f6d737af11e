"""The pages of a worker's settings and metrics say what the program declares."""

from __future__ import annotations

from tests.connect.worker import pages


def test_the_pages_are_those_of_the_rows() -> None:
    again = "python -m tests.connect.worker.pages makes it anew"
    assert pages.SETTINGS.read_text(encoding="ascii") == pages.settings(), again
    assert pages.METRICS.read_text(encoding="ascii") == pages.metrics(), again
