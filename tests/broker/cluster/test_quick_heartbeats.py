"""Heartbeats come as often as their setting says: a session of 300 ms fences no live broker."""

from __future__ import annotations

from tests.broker.cluster.world import SimulatedBrokers, new_world


def test_no_live_broker_is_fenced_in_a_short_session() -> None:
    with new_world(5) as world:
        brokers = SimulatedBrokers(
            world, broker_session_timeout_ms="300", broker_heartbeat_interval_ms="100"
        )
        brokers.await_up()
        world.run_for(1)
        images = [each.image for each in (node.node for node in brokers.running.values())]
        epochs = {each.broker_id: each.broker_epoch for each in images[0].brokers.by_id.values()}
        for _ in range(100):
            world.run_for(0.1)
            for broker in brokers.running.values():
                known = broker.node.image.brokers.by_id
                assert not [each.broker_id for each in known.values() if each.is_fenced]
                assert {each: known[each].broker_epoch for each in known} == epochs
        assert not brokers.failures
