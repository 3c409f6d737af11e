"""The order of records across inputs against one comparison for each record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.streams.engine.batches import Turn, merged

inputs = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=12), min_size=2, max_size=4)


def lowest_first(times: list[list[int]]) -> list[tuple[int, int]]:
    """(input, index): the lowest head goes first, of equal ones that of the first input."""
    done = [0] * len(times)
    found = []
    while all(at < len(each) for at, each in zip(done, times, strict=True)):
        place = min(range(len(times)), key=lambda place: times[place][done[place]])
        found.append((place, done[place]))
        done[place] += 1
    return found


def taken(turn: Turn) -> list[tuple[int, int]]:
    """As `lowest_first`."""
    starts = [sum(turn.counts[:place]) for place in range(len(turn.counts))]
    places = [turn.place(at) for at in range(len(turn.order))]
    return [(place, index - starts[place]) for place, index in zip(places, turn.order, strict=True)]


@given(inputs)
def test_the_lowest_head_runs_first_also_where_times_go_back(times: list[list[int]]) -> None:
    assert taken(merged(times)) == lowest_first(times)


@given(inputs)
def test_the_first_stretch_is_of_one_input(times: list[list[int]]) -> None:
    order = lowest_first(times)
    first = order[0][0]
    length = next((at for at, (place, _) in enumerate(order) if place != first), len(order))

    stretch = merged(times).stretch()

    assert stretch.counts == [length if place == first else 0 for place in range(len(times))]
    assert len(stretch.order) == length


@given(inputs, st.integers(0, 50))
def test_a_turn_that_stops_early_has_counts_of_its_own(times: list[list[int]], stop: int) -> None:
    turn = merged(times)
    places = [place for place, _ in lowest_first(times)[:stop]]

    counts = turn.until(min(stop, len(turn.order))).counts

    assert counts == [places.count(place) for place in range(len(times))]
