"""Scenes that provoke the bugs of transactions in the history of Kafka and Redpanda: all end well,
and with each bug planted, its scene breaks a promise."""

from __future__ import annotations

import pytest

from tests.broker.cluster.transactional.client_mutants import SCENE_CLIENT_MUTANTS
from tests.broker.cluster.transactional.scene_mutants import SCENE_MUTANTS
from tests.broker.cluster.transactional.scenes import SCENES
from tests.broker.simulation.search import Mutant, hunt_down

pytestmark = pytest.mark.usefixtures("no_world_is_left")

PLANTED = {**SCENE_MUTANTS, **SCENE_CLIENT_MUTANTS}


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_ends_well(name: str) -> None:
    SCENES[name](1)


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_the_history_breaks_a_promise_that_it_names(mutant: Mutant) -> None:
    hunt = PLANTED[mutant]
    assert hunt.run is not None
    hunted = hunt_down(hunt.run, mutant, hunt)
    assert hunted.is_found, hunted
