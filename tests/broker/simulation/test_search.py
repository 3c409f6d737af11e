"""How a planted bug counts as found: by a promise that it names, and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import NoReturn

import pytest

from moldau.runtime.simulated.report import SimulationFailed
from tests.broker.simulation.promises import BrokenPromise, Promise
from tests.broker.simulation.search import Hunt, Hunted, Mutant, Subject, hunt_down, report_mutants

NAMED = Hunt(range(5), {Promise.ORDER, Promise.DENSE})


def world_of(*ends: Exception | None) -> Callable[[int], None]:
    """A run for each seed: how it ends."""

    def run(seed: int) -> None:
        error = ends[seed] if seed < len(ends) else None
        if error is not None:
            raise SimulationFailed(seed, "it ended", "a report") from error

    return run


def no_bug() -> nullcontext[None]:
    return nullcontext()


def hunt(*ends: Exception | None, how: Hunt = NAMED) -> Hunted:
    return hunt_down(world_of(*ends), no_bug, how)


def test_a_named_promise_is_what_finds_it() -> None:
    hunted = hunt(None, BrokenPromise(Promise.DENSE, "offset=7"))
    assert hunted.is_found
    assert hunted.seeds == 2
    assert str(hunted) == "  2 seeds  seed 1: BrokenPromise: offsets are dense (offset=7)"


def test_another_promise_is_passed_over_and_told() -> None:
    other = BrokenPromise(Promise.STANDS_ONCE, "offset=7")
    hunted = hunt(other, other, BrokenPromise(Promise.ORDER))
    assert hunted.is_found
    assert hunted.others == {Promise.STANDS_ONCE: 2}
    assert str(hunted).endswith("(on the way: a record stands once)")

    assert not hunt(other).is_found
    assert str(hunt(other)) == "  5 seeds  NOT FOUND    (on the way: a record stands once)"


@pytest.mark.parametrize("crash", [AssertionError("offsets are dense"), KeyError("crash"), None])
def test_a_crash_finds_nothing_and_is_shown(crash: Exception | None) -> None:
    """Nor does a world that never gets where it should, which has no cause."""

    def run(seed: int) -> None:
        if seed == 1:
            raise SimulationFailed(seed, "not reached", "a report") from crash
        if seed == 2:
            raise SimulationFailed(seed, "", "") from BrokenPromise(Promise.DENSE)

    hunted = hunt_down(run, no_bug, NAMED)
    assert not hunted.is_found
    assert hunted.seeds == 2
    told = "not reached" if crash is None else f"{type(crash).__name__}: {crash}"
    assert str(hunted) == f"  2 seeds  NOT FOUND  seed 1: {told}"


def test_a_mutant_is_planted_while_its_seeds_run_and_gone_afterwards() -> None:
    planted: list[str] = []

    class Bug(nullcontext[None]):
        def __enter__(self) -> None:
            planted.append("in")

        def __exit__(self, *_: object) -> None:
            planted.append("out")

    hunt_down(lambda seed: planted.append(f"{seed}"), Bug, Hunt(range(2), NAMED.promises))
    assert planted == ["in", "0", "out", "in", "1", "out"]


def test_all_mutants_have_to_be_found(capsys: pytest.CaptureFixture[str]) -> None:
    def run(seed: int) -> NoReturn:
        raise SimulationFailed(seed, "", "") from BrokenPromise(Promise.DENSE)

    def another() -> nullcontext[None]:
        return nullcontext()

    mutants: dict[Mutant, Hunt] = {no_bug: NAMED}
    assert report_mutants(Subject(run, mutants))
    mutants[another] = Hunt(range(1), {Promise.ORDER})
    assert not report_mutants(Subject(run, mutants))
    assert "NOT FOUND" in capsys.readouterr().out
