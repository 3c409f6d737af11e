"""Each room says in a README what it is, what is always true there, and where to begin."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.sources import ROOT

LINES_MAX: Final = 22
TOO_SMALL: Final = ("platform/moldau/diagrams", "platform/moldau/errors", "platform/moldau/ids")
"""Rooms of a file or two, whose docstring says all of it."""
_NAMED: Final = re.compile(r"`([\w./]+(?:\.pyx?|/))`")


def rooms() -> list[Path]:
    """The rooms of the platform and of the broker, and the layers above them."""
    layers = [
        *ROOT.glob("platform/moldau/*/"),
        *ROOT.glob("broker/moldau/broker/*/"),
        *ROOT.glob("streams/moldau/*/"),
        *ROOT.glob("connect/moldau/*/"),
        *ROOT.glob("connectors/moldau/*/"),
    ]
    found = [each for each in layers if (each / "__init__.py").exists()]
    return sorted(each for each in found if str(each.relative_to(ROOT)) not in TOO_SMALL)


@pytest.mark.parametrize("room", rooms(), ids=lambda room: str(room.relative_to(ROOT)))
def test_a_room_says_where_to_begin(room: Path) -> None:
    text = (room / "README.md").read_text(encoding="ascii")

    assert len(text.splitlines()) <= LINES_MAX
    for part in ("**Always true**", "**Begin at**", "**May import**"):
        assert part in text
    named = _NAMED.findall(text)
    assert named
    assert [each for each in named if not (room / each).exists() and "docs/" not in each] == []
