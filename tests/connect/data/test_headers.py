"""Headers keep their order and their doubles."""

from __future__ import annotations

from moldau.connect.data import STRING, Header, Headers


def test_doubles_stay_and_the_last_counts() -> None:
    headers = Headers()
    headers.add("a", 1)
    headers.add("b", "x", STRING)
    headers.add("a", 2)

    assert [header.value for header in headers.all_of("a")] == [1, 2]
    assert headers.last_of("a") == Header("a", 2)
    assert headers.last_of("c") is None


def test_without_leaves_the_original_alone() -> None:
    headers = Headers([Header("a", 1), Header("b", 2), Header("a", 3)])

    assert headers.without(["a"]) == [Header("b", 2)]
    assert len(headers) == 3
