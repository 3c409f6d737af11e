"""How soon every broker hears of what the controllers have committed, in virtual time."""

from __future__ import annotations

from moldau.client import Admin, NewTopic
from moldau.runtime import Runtime
from tests.broker.cluster.world import SimulatedBrokers, new_world

TOPICS = 5
SOON_S = 0.1
"""Much less than a fetch of metadata waits when there is no news."""


def test_every_broker_hears_at_once_of_a_topic() -> None:
    with new_world(11) as world:
        brokers = SimulatedBrokers(world)
        brokers.await_up()
        servers = brokers.bootstrap_servers
        for number in range(TOPICS):
            topic = f"t{number}"
            world.run_for(1)  # every node waits for news

            async def create(runtime: Runtime, topic: str = topic) -> None:
                async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                    await admin.create_topics([NewTopic(topic, 1, 3)])

            def know(topic: str = topic) -> bool:
                images = [each.node.image for each in brokers.running.values()]
                return all(each.topics.by_name(topic) is not None for each in images)

            brokers.run(create)
            world.run_until(know, within=SOON_S)
