"""A range of versions admits what Maven's admits."""

from __future__ import annotations

import pytest

from moldau.connect.plugins.versions import admits, compared


@pytest.mark.parametrize(
    ("wanted", "version", "is_in"),
    [
        ("1.2", "1.2", True),
        ("1.2", "1.2.0", True),
        ("1.2", "1.3", False),
        ("[1.2]", "1.2", True),
        ("[1.2]", "1.2.1", False),
        ("[1.2,2.0)", "1.2", True),
        ("[1.2,2.0)", "1.10", True),
        ("[1.2,2.0)", "2.0", False),
        ("(1.2,2.0]", "1.2", False),
        ("(1.2,2.0]", "2.0", True),
        ("[1.2,)", "47", True),
        ("(,1.0]", "0.1", True),
        ("(,1.0),(1.0,)", "1.0", False),
        ("(,1.0], [1.2,)", "1.3", True),
        ("(,1.0],[1.2,)", "1.1", False),
        ("latest", "0.1", True),
    ],
)
def test_a_range_admits(wanted: str, version: str, is_in: bool) -> None:
    assert admits(wanted, version) is is_in


@pytest.mark.parametrize("wanted", ["[1.0", "[]", "(1.0)", "[1,2,3]", "[2,1]", "[1]x"])
def test_what_is_no_range_is_refused(wanted: str) -> None:
    with pytest.raises(ValueError, match="is no range of versions"):
        admits(wanted, "1.0")


def test_versions_are_in_order() -> None:
    ordered = ["1.0-alpha", "1.0-beta2", "1.0-rc1", "1.0-SNAPSHOT", "1.0", "1.0.1", "1.2", "1.10"]
    for index, one in enumerate(ordered):
        for other in ordered[index + 1 :]:
            assert compared(one, other) == -1, (one, other)
            assert compared(other, one) == 1
