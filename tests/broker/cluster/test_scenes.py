"""Scenes that provoke the replication bugs of Kafka's history: all end well, and with each bug
planted, its scene breaks an invariant."""

from __future__ import annotations

import pytest

from tests.broker.cluster.mutants import MUTANTS
from tests.broker.cluster.scenes import SCENES
from tests.broker.simulation.search import Mutant, hunt_down


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_ends_well(name: str) -> None:
    SCENES[name](1)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_planted_bug_breaks_an_invariant_that_it_names(mutant: Mutant) -> None:
    hunt = MUTANTS[mutant]
    assert hunt.run is not None
    hunted = hunt_down(hunt.run, mutant, hunt)
    assert hunted.is_found, hunted
