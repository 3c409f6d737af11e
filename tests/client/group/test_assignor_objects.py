"""Assignors that a program gives as objects, with user data in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from moldau.client import ConfigError, TopicPartition
from moldau.client.group.assignors import (
    Assignment,
    RangeAssignor,
    Rebalance,
    Share,
    Subscription,
    Topics,
    load_assignors,
)
from moldau.client.group.subscription_bytes import decode_share, encode_assignment
from moldau.runtime import Runtime
from tests.client.consumer.numbered_records import fill
from tests.client.group.simulated_consumer import consumer
from tests.client.world import ClientWorld


class ByWeight:
    """Gives each member as much as it says that it can carry."""

    name = "by-weight"
    rebalances = frozenset((Rebalance.EAGER,))

    def __init__(self, weight: int) -> None:
        self.weight = weight
        self.told: bytes | None = None
        self.owned: list[TopicPartition] = []

    def user_data(self, topics: frozenset[str]) -> bytes | None:
        return b"%d" % self.weight

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        left = [TopicPartition("t", number) for number in range(len(topics["t"]))]
        shares: Assignment = {}
        for name, each in sorted(members.items()):
            assert each.user_data is not None
            count = int(each.user_data)
            shares[name] = Share(left[:count], b"you carry %d of %d" % (count, len(topics["t"])))
            left = left[count:]
        return shares

    def on_assignment(
        self,
        partitions: Sequence[TopicPartition],
        generation: int,
        user_data: bytes | None = None,
    ) -> None:
        self.owned, self.told = list(partitions), user_data


def test_user_data_goes_to_the_leader_and_back_to_each_member() -> None:
    light, heavy = ByWeight(1), ByWeight(3)

    def reading(assignor: ByWeight) -> Any:
        async def main(runtime: Runtime) -> None:
            async with consumer(
                runtime, "eager", partition_assignment_strategy=[assignor]
            ) as reader:
                await reader.subscribe("t")
                while not (light.told and heavy.told and len(light.owned) == 1):
                    await reader.poll(0.5)

        return main

    with ClientWorld() as world:
        for log in world.cluster.add_topic("t", [1, 2, 1, 2]):
            fill(log, 10)
        nodes = [world.add_node(f"m{n}", reading(each)) for n, each in enumerate((light, heavy))]
        world.run_until(lambda: all(each.state.value == "exited" for each in nodes), within=60)
    assert light.told == b"you carry 1 of 4"
    assert heavy.told == b"you carry 3 of 4"
    assert (len(light.owned), len(heavy.owned)) == (1, 3)


def test_an_object_may_stand_among_names_and_classes() -> None:
    weight = ByWeight(1)
    found = load_assignors(["range", weight, ByWeightless])
    assert [each.name for each in found] == ["range", "by-weight", "weightless"]
    assert found[1] is weight


class ByWeightless(RangeAssignor):
    @property
    def name(self) -> str:
        return "weightless"


class Old(ByWeight):
    def on_assignment(self, partitions: Any, generation: int) -> None:  # type: ignore[override]
        """As it was before there was user data."""


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (object(), "lacks what an assignor has"),
        ([Old(1)], "takes partitions, generation and user_data"),
        (["range", RangeAssignor()], "two assignors have one name"),
        (["nothing"], "no such assignor"),
    ],
)
def test_what_is_no_assignor_is_refused_before_anything_is_sent(given: Any, reason: str) -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(ConfigError, match=reason):
            async with consumer(runtime, "eager", partition_assignment_strategy=given):
                pytest.fail("it has started")

    with ClientWorld() as world:
        world.run_client(main)


def test_an_object_cannot_be_given_where_the_coordinator_decides() -> None:
    async def main(runtime: Runtime) -> None:
        with pytest.raises(ConfigError, match="the broker decides"):
            consumer(runtime, "consumer", partition_assignment_strategy=ByWeight(1))
        await asyncio.sleep(0)

    with ClientWorld() as world:
        world.run_client(main)


@pytest.mark.parametrize("told", [None, b"", b"words"])
def test_user_data_of_a_share_survives_its_bytes(told: bytes | None) -> None:
    partitions = [TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0)]
    found = decode_share(encode_assignment(partitions, told))
    assert found == partitions
    assert found.user_data == told
    assert decode_share(b"") == []
