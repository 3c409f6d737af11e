"""The rows of docs/streams.md that tell the differences on purpose."""

from __future__ import annotations

from pathlib import Path

from tests.streams.kafka.differences import DIFFERENCES

PAGE = Path(__file__).parents[3] / "docs" / "streams.md"


def rows() -> list[str]:
    """A row of the table for each difference."""
    return [f"| {each.theirs} | {each.ours} |" for each in DIFFERENCES.values()]
