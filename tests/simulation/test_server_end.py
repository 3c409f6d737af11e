"""How a server of the replicated log ends when it is asked to."""

from __future__ import annotations

from examples.replicated_log.cluster import Cluster
from examples.replicated_log.replica import Ready
from examples.replicated_log.server import Server
from examples.replicated_log.store import Store
from moldau.runtime.simulated.node import NodeState
from moldau.runtime.simulated.simulation import Simulation


def test_a_server_that_is_stopped_closes_its_store_after_the_last_save() -> None:
    happened: list[str] = []

    class Watched(Store):
        def save(self, ready: Ready) -> None:
            happened.append("begins")
            super().save(ready)
            happened.append("saved")

        def close(self) -> None:
            happened.append("closed")
            super().close()

    class Watching(Server):
        store_class = Watched

        def save(self, ready: Ready) -> None:
            super().save(ready)
            happened.append("asked")

    with Simulation(1) as world:
        cluster = Cluster(world, 1, Watching)
        world.run_until(lambda: "asked" in happened, within=30)
        assert happened == ["asked"]
        cluster.nodes[1].stop()
        world.run_for(1)
        assert cluster.nodes[1].state is NodeState.EXITED
    assert happened == ["asked", "begins", "saved", "closed"]
