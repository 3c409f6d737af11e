"""Workers that are replaced one by one: exact results, and no task stays idle."""

from __future__ import annotations

import pytest

from moldau.runtime.simulated.report import SimulationFailed
from moldau.streams.worker import start
from tests.streams.simulation.upgrade import Addition, migrate, upgrade


@pytest.mark.parametrize(
    "addition", ["source", pytest.param("repartition", marks=pytest.mark.deep)]
)
def test_a_rolling_upgrade_with_one_more_sub_topology_counts_once(addition: Addition) -> None:
    assert upgrade(1, addition).epochs == [0, 0, 1, 1]


@pytest.mark.deep
def test_a_worker_of_the_old_version_that_starts_again_keeps_its_epoch() -> None:
    assert upgrade(1, "source", restarts=True).epochs == [0, 0, 1, 0, 1]


def test_workers_of_a_classic_group_become_those_of_a_streams_group_one_by_one() -> None:
    seen = migrate(1)
    assert not seen.waited
    assert seen.pause_s < 2.0


def test_workers_of_one_epoch_with_two_topologies_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(start, "topology_epoch", lambda *_: (0, ()))
    with pytest.raises(SimulationFailed):
        upgrade(1, "source")
