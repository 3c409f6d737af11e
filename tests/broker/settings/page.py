"""The page docs/settings.md, made of the rows."""

from __future__ import annotations

from pathlib import Path

from moldau.broker.settings import reference

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def render() -> str:
    return reference.render()
