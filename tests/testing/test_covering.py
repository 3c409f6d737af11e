"""Every pair of choices occurs in a case that is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.testing.covering import covering, name_of, of_day

COLUMNS = st.lists(st.integers(1, 4), min_size=2, max_size=5).map(
    lambda sizes: {f"c{n}": [str(each) for each in range(size)] for n, size in enumerate(sizes)}
)


@settings(max_examples=40)
@given(COLUMNS, st.integers(0, 99), st.integers(2, 3))
def test_every_allowed_pair_is_in_a_case(
    columns: dict[str, list[str]], seed: int, strength: int
) -> None:
    def allowed(case: Mapping[str, str]) -> bool:
        """The first two columns have different choices, but for their first ones."""
        one, other = case.get("c0"), case.get("c1")
        return one is None or other is None or one != other or one == "0"

    whole = [dict(zip(columns, choices, strict=True)) for choices in product(*columns.values())]
    possible = {
        group for case in whole if allowed(case) for group in combinations(case.items(), strength)
    }
    cases = covering(columns, allowed, seed=seed, strength=strength)
    assert all(allowed(each) for each in cases)
    assert {group for each in cases for group in combinations(each.items(), strength)} == possible
    assert cases == covering(columns, allowed, seed=seed, strength=strength)


def test_there_are_far_fewer_cases_than_combinations() -> None:
    columns = {f"c{n}": ("a", "b", "c") for n in range(10)}
    assert len(covering(columns, lambda _: True, seed=1)) <= 25


def test_the_days_show_all_cases_in_turn() -> None:
    cases = covering({"a": "123", "b": "123"}, lambda _: True, seed=1)
    shown = {name_of(each) for day in range(len(cases)) for each in of_day(cases, 2, day)}
    assert shown == set(map(name_of, cases))
