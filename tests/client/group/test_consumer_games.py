"""Games of whole consumers: many seeds keep all promises, and every planted bug is found.

A failure names its seed and tells the moves in order; `python -m tests.client.group.consumer_games
--seed N` brings it back.
"""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest.mock import patch

import pytest

from moldau.client.consumer import Consumer
from moldau.client.consumer_groups import ConsumerGroup
from moldau.client.group.classic import ClassicMember
from moldau.client.group.consumer import ConsumerMember
from moldau.client.group.session import GroupSession
from moldau.runtime.simulated.self_check import run_seeds
from moldau.runtime.simulated.trace import Fingerprint
from tests.broker.simulation.search import Hunt, Mutant, hunt_down
from tests.client.group.consumer_games import play
from tests.client.group.consumer_lives import Promise

SEEDS: Final = range(1000, 1065)
TWICE_EVERY: Final = 33
HAPPENS: Final = (
    "assigned",
    "revoked",
    "lost",
    "committed at the end",
    "gone: closed",
    "gone: just closed",
    "gone: just unsubscribed",
    "gone: silent",
    "gone: unsubscribed",
    "heard RuntimeError",
    "heard Refused",
)

Mutation = AbstractContextManager[object]


def test_all_promises_are_kept_and_the_games_go_where_it_hurts() -> None:
    happened: Counter[str] = Counter()

    def scenario(seed: int) -> Fingerprint:
        outcome = play(seed)
        happened.update(outcome.counts)
        gc.collect()
        return outcome.fingerprint

    run_seeds(scenario, SEEDS, twice_every=TWICE_EVERY)
    assert not [name for name in HAPPENS if not happened[name]]


# Bugs on purpose.


def what_goes_is_not_committed() -> Mutation:
    """Partitions are revoked, and what was given of them is forgotten."""
    return patch.object(ConsumerGroup, "commit_before", ConsumerGroup.commits_ended)


def nothing_is_committed_at_last() -> Mutation:
    """By close."""

    async def nothing(*_: object) -> None:
        return None

    return patch.object(ConsumerGroup, "_commit_at_last", nothing)


def who_unsubscribes_waits_for_nothing() -> Mutation:
    """His listener is told by some later poll."""

    async def nothing(*_: object) -> None:
        return None

    return patch.object(GroupSession, "run_changes", nothing)


def who_closes_does_not_leave() -> Mutation:
    """The coordinator finds out by itself."""

    def forget(member: Any, *, is_closing: bool) -> None:
        member._give_everything_up(is_closing=is_closing)
        if not is_closing:
            member._depart() if isinstance(member, ConsumerMember) else member._depart("")

    return _Both(
        patch.object(ClassicMember, "leave", forget), patch.object(ConsumerMember, "leave", forget)
    )


def a_record_too_many_is_committed() -> Mutation:
    """One that no poll has given yet."""
    original = Consumer._ahead_of

    def ahead(reader: Consumer, left: Any) -> Any:
        found = original(reader, left)
        return {where: each._replace(offset=each.offset + 1) for where, each in found.items()}

    return patch.object(Consumer, "_ahead_of", ahead)


def nobody_gives_up_before_he_joins() -> Mutation:
    """As if every group were cooperative."""
    return patch.object(ClassicMember, "_prepares", lambda _: False)


class _Both(AbstractContextManager[object]):
    def __init__(self, *patches: Any) -> None:
        self._patches = patches

    def __enter__(self) -> None:
        for each in self._patches:
            each.__enter__()

    def __exit__(self, *error: object) -> None:
        for each in self._patches:
            each.__exit__(*error)


MUTANTS: Final[dict[Mutant, Hunt]] = {
    what_goes_is_not_committed: Hunt(range(100), (Promise.NOTHING_REPEATED,)),
    nothing_is_committed_at_last: Hunt(range(100), (Promise.COMMITTED_AT_THE_END,)),
    who_unsubscribes_waits_for_nothing: Hunt(range(100), (Promise.HEARD_TO_THE_END,)),
    who_closes_does_not_leave: Hunt(range(100), (Promise.LEAVES,)),
    a_record_too_many_is_committed: Hunt(range(100), (Promise.ONLY_GIVEN_COMMITTED,)),
    nobody_gives_up_before_he_joins: Hunt(
        range(100), (Promise.ONE_OWNER, Promise.HEARD_IN_ORDER, Promise.NOTHING_REPEATED)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_is_found_by_what_it_breaks(mutant: Mutant) -> None:
    hunted = hunt_down(play, mutant, MUTANTS[mutant])
    assert hunted.is_found, str(hunted)
