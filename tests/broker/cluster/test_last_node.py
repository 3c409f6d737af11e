"""The last node of a cluster stops in bounded time, though no controller can be elected."""

from __future__ import annotations

from tests.broker.cluster.world import SimulatedBrokers, new_world

STUCK_S = 8
"""Long enough for a heartbeat to look for a controller in vain."""


def test_the_last_of_three_does_not_wait_for_a_controller() -> None:
    with new_world(3) as world:
        brokers = SimulatedBrokers(world)
        brokers.await_up()
        brokers.kill(1)
        brokers.kill(2)
        world.run_for(STUCK_S)
        brokers.stop(3, within=10)
        said = "\n".join(brokers.lines[3])
        assert "stops while no controller is there" in said
        assert "broker is closed" in said
        assert " ERROR " not in said
