"""In which column a box stands, and how a long text is cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from moldau.diagrams import Arrow, columns, curve, cut


def in_columns(names: str, *arrows: str) -> list[str]:
    """The names in each column."""
    found = columns(names, [(each[0], each[1]) for each in arrows])
    count = max(found.values(), default=-1) + 1
    return ["".join(name for name in names if found[name] == column) for column in range(count)]


def test_a_box_stands_right_of_all_that_lead_to_it() -> None:
    assert in_columns("dcba", "ab", "bc", "ad", "cd") == ["a", "b", "c", "d"]
    assert in_columns("abc", "ac") == ["ab", "c"]
    assert in_columns("") == []


def test_what_runs_in_a_circle_is_cut_where_it_closes() -> None:
    assert in_columns("abc", "ab", "bc", "ca") == ["a", "b", "c"]
    assert in_columns("a", "aa") == ["a"]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef"))))
def test_a_column_is_left_of_the_number_of_boxes(arrows: list[Arrow]) -> None:
    found = columns("abcdef", arrows)
    assert list(found) == list("abcdef")
    assert all(0 <= column < len(found) for column in found.values())


def test_a_long_chain_needs_no_recursion() -> None:
    keys = [str(number) for number in range(5_000)]
    assert columns(keys, list(pairwise(keys)))["4999"] == 4_999


def test_a_curve_bends_in_the_gap_and_a_long_text_is_cut() -> None:
    assert curve((10, 5), (50, 25), 40) == "M10 5C30 5 30 25 50 25"
    assert (cut("abcdef", 6), cut("abcdefg", 6)) == ("abcdef", "abc...")
