"""A check says in words what it decides."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.config import (
    Check,
    at_least,
    at_most,
    between,
    either,
    every,
    exactly,
    list_of,
    matching,
    not_empty,
    one_of,
    one_of_ignoring_case,
    sendable,
)

CASES: list[tuple[Check[Any], str, list[object], list[object]]] = [
    (between(1, 3), "from 1 to 3", [1, 3], [0, 4]),
    (between(0.0, 1.0), "from 0.0 to 1.0", [0.0, 0.5, 1.0], [-0.1, 1.1]),
    (at_least(2), "2 or more", [2, 3], [1]),
    (at_most(2), "2 or less", [2, 1], [3]),
    (one_of("a", "b"), "one of a, b", ["a", "b"], ["A", "", "ab"]),
    (one_of_ignoring_case("Gzip"), "one of Gzip (in any case)", ["gzip", "GZIP"], ["zip"]),
    (not_empty(), "text that is not empty", ["a", " "], [""]),
    (
        sendable(),
        "text of at most 32767 bytes in UTF-8",
        ["", "a" * 32_767, "\u00e9" * 16_383],
        ["a" * 32_768, "\u00e9" * 16_384, "a\ud800"],
    ),
    (matching("[a-z]+", "letters"), "letters", ["abc"], ["", "ab1", "abc\n"]),
    (every(at_least(1), at_most(3)), "1 or more and 3 or less", [1, 3], [0, 4]),
    (either(exactly(-1), at_least(10)), "-1 or 10 or more", [-1, 10], [0, -2]),
    (list_of(), "items without repetition", [(), ("a",), ("a", "b")], [("a", "a"), ("",)]),
    (
        list_of(("a", "b"), empty_allowed=False),
        "items without repetition, each one of a, b, at least one",
        [("a",), ("b", "a")],
        [(), ("c",), ("a", "c")],
    ),
    (
        list_of(item=matching("[0-9]+:[0-9]+", "id:number")),
        "items without repetition, each id:number",
        [("1:2", "3:4")],
        [("1:2", "x")],
    ),
]


@pytest.mark.parametrize(("check", "words", "good", "bad"), CASES)
def test_a_check_decides_what_it_says(
    check: Check[Any], words: str, good: list[object], bad: list[object]
) -> None:
    assert check.allowed == words
    assert [value for value in good if not check.holds(value)] == []
    assert [value for value in bad if check.holds(value)] == []
