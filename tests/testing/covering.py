"""Cases with every pair of choices of different columns, as few as a greedy search finds.

    columns = {"client": ("ours", "java"), "nodes": ("1", "3"), "codec": ("none", "zstd")}
    for case in covering(columns, allowed, seed=1):
        case["client"], case["nodes"], ...

A new feature is a column, or a choice of one. Invariant: each pair that an allowed case can have is
in a case; the same seed gives the same cases.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, product
from random import Random
from typing import Final

Case = dict[str, str]
Columns = Mapping[str, Sequence[str]]
Allowed = Callable[[Mapping[str, str]], bool]
"""Whether a case is possible. It is asked for parts of cases too: what is not there is possible."""
Choice = tuple[str, str]
Apart = Collection[frozenset[str]]
"""Columns whose choices need not all meet."""

_TRIES: Final = 12
"""How many random cases compete for the next place."""


def covering(
    columns: Columns, allowed: Allowed, *, seed: int, strength: int = 2, apart: Apart = ()
) -> list[Case]:
    """Return the cases. With a `strength` of 3 every three choices occur together, but those of
    columns `apart`."""
    return list(cases_of(columns, allowed, seed=seed, strength=strength, apart=apart))


def cases_of(
    columns: Columns, allowed: Allowed, *, seed: int, strength: int = 2, apart: Apart = ()
) -> Iterator[Case]:
    """Yield the cases, those with the most pairs that are new first."""
    random = Random(seed)
    left = set(_groups(columns, allowed, strength, apart))
    while left:
        begins = min(left) if random.random() < 0.5 else random.choice(sorted(left))
        tries = [_case(columns, allowed, begins, random) for _ in range(_TRIES)]
        possible = [each for each in tries if each is not None]
        if not possible:  # no allowed case has these choices together
            left.discard(begins)
            continue
        best = max(possible, key=lambda each: len(left & _within(each, strength)))
        left -= _within(best, strength)
        yield best


def of_day(cases: Sequence[Case], count: int, day: int) -> list[Case]:
    """Return some of the cases, others each day, so that all come up in turn."""
    begin = day * count
    return [cases[(begin + each) % len(cases)] for each in range(min(count, len(cases)))]


def name_of(case: Case) -> str:
    """Return a case in one line."""
    return " ".join(f"{name}={choice}" for name, choice in case.items())


def _groups(
    columns: Columns, allowed: Allowed, strength: int, apart: Apart
) -> Iterator[tuple[Choice, ...]]:
    for names in combinations(columns, strength):
        if any(each <= set(names) for each in apart):
            continue
        for choices in product(*(columns[name] for name in names)):
            group = tuple(zip(names, choices, strict=True))
            if allowed(dict(group)):
                yield group


def _within(case: Case, strength: int) -> set[tuple[Choice, ...]]:
    return set(combinations(case.items(), strength))


def _case(
    columns: Columns, allowed: Allowed, begins: tuple[Choice, ...], random: Random
) -> Case | None:
    """Return a random allowed case with these choices, None if the search meets a dead end."""
    chosen = dict(begins)
    for name in random.sample(list(columns), len(columns)):
        if name in chosen:
            continue
        possible = [each for each in columns[name] if allowed({**chosen, name: each})]
        if not possible:
            return None
        chosen[name] = random.choice(possible)
    return {name: chosen[name] for name in columns}
