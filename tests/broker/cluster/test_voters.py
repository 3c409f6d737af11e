"""Controllers join the quorum and leave it while topics are made, in virtual time."""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest

from moldau.client import Admin
from moldau.errors.codes import KafkaError
from moldau.runtime import Runtime
from tests.broker.cluster.test_isolated_roles import Maker, heal, strike
from tests.broker.cluster.world import CONTROLLER_PORT, SimulatedBrokers, new_world, program

SEEDS = range(1, 1 + int(os.environ.get("MOLDAU_VOTERS_SEEDS", "1")))


async def add(admin: Admin, node: int) -> None:
    quorum = await admin.describe_quorum()
    (known,) = [each for each in quorum.observers if each.node_id == node]
    await admin.add_voter(node, known.directory_id, {"CONTROLLER": (f"b{node}", CONTROLLER_PORT)})


async def remove(admin: Admin, node: int) -> None:
    quorum = await admin.describe_quorum()
    (known,) = [each for each in quorum.voters if each.node_id == node]
    await admin.remove_voter(node, known.directory_id)


def voters(brokers: SimulatedBrokers, number: int) -> set[int]:
    return set(brokers.keeping[number].controller.quorum.voters.ids)


def test_a_quorum_of_one_grows_to_three_and_loses_its_first_voter() -> None:
    with new_world(1) as world:
        brokers = SimulatedBrokers(world, 2, controllers=3, first_voter=101)
        brokers.await_up()
        maker = Maker(brokers.bootstrap_servers)
        made = program(world, "maker", maker.make)

        async def change(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await add(admin, 102)
                await add(admin, 103)
                await remove(admin, 101)

        world.run_for(1)
        changed = program(world, "changer", change)
        world.run_until(lambda: changed, within=60)
        world.run_until(lambda: voters(brokers, 101) == {102, 103}, within=10)
        assert voters(brokers, 102) == voters(brokers, 103) == {102, 103}
        world.run_until(lambda: brokers.controller() in (102, 103), within=10)
        brokers.kill(101)
        before = len(maker.made)
        world.run_for(5)
        assert len(maker.made) > before + 10
        assert maker.slowest_s < 4
        for number in (101, *brokers.broker_ids):
            if number in brokers.broker_ids:
                brokers.kill(number)
            brokers.start(number)
        brokers.await_up()
        world.run_for(3)
        maker.is_ending = True
        world.run_until(lambda: made, within=60)
        world.run_for(2)
        checked = program(world, "auditor", maker.check)
        world.run_until(lambda: checked, within=30)
        assert not brokers.failures


def test_a_controller_with_another_disk_is_no_voter_until_it_is_added_anew() -> None:
    with new_world(2) as world:
        brokers = SimulatedBrokers(world, 1, controllers=3, first_voter=101)
        brokers.await_up()

        async def grow(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await add(admin, 102)
                await add(admin, 103)

        grown = program(world, "grower", grow)
        world.run_until(lambda: grown, within=60)
        world.run_for(1)
        brokers.kill(103)
        brokers.nodes[103].lose_disk()
        brokers.start(103)
        world.run_until(lambda: 103 in brokers.keeping, within=60)
        world.run_for(2)
        core = brokers.keeping[103].controller.raft.core
        assert core.member.voters == (101, 102, 103)
        assert not core.member.is_voter

        async def again(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await remove(admin, 103)
                await add(admin, 103)

        done = program(world, "again", again)
        world.run_until(lambda: done, within=60)
        world.run_until(lambda: core.member.is_voter, within=10)
        assert not brokers.failures


@pytest.mark.parametrize("seed", SEEDS)
def test_voters_come_and_go_under_faults(seed: int) -> None:
    random = Random(seed)
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world, 1, controllers=4, first_voter=101)
        brokers.await_up()
        maker = Maker(brokers.bootstrap_servers)
        made = program(world, "maker", maker.make)
        changes: list[int] = []

        async def keep_changing(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                while not maker.is_ending:
                    try:
                        quorum = await admin.describe_quorum()
                        ids = [each.node_id for each in quorum.voters]
                        others = sorted(set(brokers.controller_ids) - set(ids))
                        if others and (len(ids) < 3 or random.random() < 0.5):
                            await add(admin, random.choice(others))
                        elif len(ids) > 2:
                            await remove(admin, random.choice(ids))
                        changes.append(len(ids))
                    except (KafkaError, ValueError):
                        await asyncio.sleep(0.2)
                    await asyncio.sleep(random.uniform(0.1, 2))

        changer = program(world, "changer", keep_changing)
        world.run_for(5)
        for _ in range(6):
            strike(world, brokers, random)
            world.run_for(random.uniform(0.1, 6))
            heal(world, brokers)
            world.run_for(random.uniform(0.5, 6))
        brokers.await_up(within=120)
        known = len(maker.made)
        world.run_until(lambda: len(maker.made) > known + 10, within=120)
        maker.is_ending = True
        world.run_until(lambda: made and changer, within=180)
        world.run_for(3)
        checked = program(world, "auditor", maker.check)
        world.run_until(lambda: checked, within=60)
        assert len(changes) > 3
        assert not brokers.failures, brokers.failures
