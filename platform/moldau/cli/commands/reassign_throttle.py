"""The throttle of moves: the rates of brokers, and the replicas of topics that are throttled.

As in Kafka's tool, old replicas are throttled as leaders, and new ones as followers. `clear`
removes the settings that `throttle` sets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from moldau.cli.commands.reassign_plan import Place

if TYPE_CHECKING:
    from moldau.client import Admin

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"


def throttled_replicas(
    current: Mapping[Place, Sequence[int]], goal: Mapping[Place, Sequence[int]]
) -> dict[str, dict[str, str]]:
    """Return the two settings of each topic with moves that add replicas."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for (topic, number), replicas in sorted(goal.items()):
        leaders, followers = found.setdefault(topic, ([], []))
        before = current[topic, number]
        added = [each for each in replicas if each not in before]
        if added:
            leaders += [f"{number}:{each}" for each in before]
            followers += [f"{number}:{each}" for each in added]
    return {
        topic: {LEADERS: ",".join(leaders), FOLLOWERS: ",".join(followers)}
        for topic, (leaders, followers) in found.items()
        if followers
    }


async def throttle(
    admin: Admin, topics: Mapping[str, Mapping[str, str]], brokers: Iterable[int], rate: int
) -> None:
    """Set the replicas of these topics, and a rate in bytes a second for each of these brokers."""
    from moldau.client import Resource, ResourceType

    for topic, values in topics.items():
        await admin.alter_configs(Resource(ResourceType.TOPIC, topic), set_to=values)
    for broker in sorted(brokers):
        rates = dict.fromkeys(RATES, str(rate))
        await admin.alter_configs(Resource(ResourceType.BROKER, str(broker)), set_to=rates)


async def clear(admin: Admin, topics: Collection[str], brokers: Iterable[int]) -> None:
    """Remove the throttles of these topics and brokers."""
    from moldau.client import Resource, ResourceType

    for broker in sorted(brokers):
        await admin.alter_configs(Resource(ResourceType.BROKER, str(broker)), unset=RATES)
    for topic in sorted(topics):
        resource = Resource(ResourceType.TOPIC, topic)
        await admin.alter_configs(resource, unset=(LEADERS, FOLLOWERS))
