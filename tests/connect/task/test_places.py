"""Offsets of dead letters as ranges and as a note."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect.task.places import NOTE_CHARS_MAX, PREFIX, Places

OFFSETS = st.lists(st.integers(0, 40), max_size=40)


def made(offsets: list[int]) -> Places:
    places = Places()
    for each in offsets:
        places.add(each)
    return places


def held(places: Places) -> set[int]:
    return {each for each in range(50) if each in places}


@given(OFFSETS, st.integers(0, 45))
def test_they_are_a_set_that_forgets_the_lowest(offsets: list[int], lowest: int) -> None:
    places = made(offsets)
    assert held(places) == set(offsets)
    assert held(Places.parse(places.note())) == set(offsets)

    # A range that reaches over `lowest` may stay whole: what is below is not read again.
    places.forget_below(lowest)
    assert {each for each in held(places) if each >= lowest} == {n for n in offsets if n >= lowest}


def test_neighbours_are_one_range() -> None:
    assert made([5, 6, 7, 9, 2]).note() == f"{PREFIX}2,5-7,9"
    assert made([]).note() == ""


@pytest.mark.parametrize("note", ["", "mine", PREFIX, f"{PREFIX}3,x", f"{PREFIX}9-3", "1-2"])
def test_a_foreign_note_gives_none(note: str) -> None:
    assert held(Places.parse(note)) == set()


def test_a_note_has_the_lowest_and_an_end() -> None:
    offsets = list(range(0, 4_000_000, 2_000))
    note = made(offsets).note()
    assert len(note) <= NOTE_CHARS_MAX
    found = [int(each) for each in note.removeprefix(PREFIX).split(",")]
    assert found == offsets[: len(found)]
    assert all(later > earlier for earlier, later in pairwise(found))
