"""Controllers join the quorum and leave it while topics are made, in virtual time."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from random import Random

import pytest

from moldau.client import Admin
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.ids import ZERO_UUID, format_uuid
from moldau.runtime import Runtime
from tests.broker.cluster.faults import await_more, suffer
from tests.broker.cluster.traffic import Maker
from tests.broker.cluster.world import CONTROLLER_PORT, SimulatedBrokers, new_world

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
        made = brokers.start_program(maker.make, "maker")

        async def change(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await add(admin, 102)
                await add(admin, 103)
                await remove(admin, 101)

        world.run_for(1)
        brokers.run(change, "changer")
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
        world.run_until(lambda: made.is_done, within=60)
        world.run_for(2)
        brokers.run(maker.check, "auditor", within=30)
        assert not brokers.failures


def test_a_voter_follows_a_leader_that_its_own_log_does_not_name() -> None:
    with new_world(5) as world:
        brokers = SimulatedBrokers(world, 1, controllers=3, first_voter=101)
        brokers.await_up()

        async def grow(runtime: Runtime, node: int) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await add(admin, node)

        world.run_for(1)
        brokers.run(partial(grow, node=103))
        world.run_until(lambda: voters(brokers, 103) == {101, 103}, within=10)
        brokers.isolate(103)
        brokers.run(partial(grow, node=102))
        assert voters(brokers, 102) == {101, 102, 103}
        assert voters(brokers, 103) == {101, 103}
        brokers.kill(101)
        brokers.heal()
        world.run_until(lambda: voters(brokers, 103) == {101, 102, 103}, within=20)
        world.run_until(lambda: brokers.controller() == 102, within=20)
        assert not brokers.failures


def registered(brokers: SimulatedBrokers, number: int) -> set[int]:
    """The controllers that the metadata of a node has."""
    running, keeping = brokers.running, brokers.keeping
    image = keeping[number].image if number in keeping else running[number].node.image
    return set(image.brokers.controllers)


def unregister(brokers: SimulatedBrokers, node: int) -> list[ErrorCode]:
    """Unregister a controller, and return the error if there is one."""
    refused: list[ErrorCode] = []

    async def ask(runtime: Runtime) -> None:
        async with Admin(runtime=runtime, bootstrap_servers=brokers.bootstrap_servers) as admin:
            try:
                await admin.unregister_controller(node)
            except KafkaError as error:
                refused.append(error.code)

    brokers.run(ask)
    return refused


@pytest.mark.parametrize(("count", "controllers"), [(1, 3), (3, 0)])
def test_a_controller_is_forgotten_for_good_only_when_it_is_gone(
    count: int, controllers: int
) -> None:
    with new_world(4) as world:
        brokers = SimulatedBrokers(world, count, controllers=controllers)
        brokers.await_up()
        ids = set(brokers.controller_ids if controllers else brokers.broker_ids)
        world.run_until(lambda: registered(brokers, min(ids)) == ids, within=10)
        active = brokers.controller()
        leaving, other = sorted(ids - {active})
        assert unregister(brokers, active) == [ErrorCode.INVALID_REQUEST]
        assert unregister(brokers, 999) == [ErrorCode.CONTROLLER_ID_NOT_REGISTERED]
        assert unregister(brokers, leaving) == []
        world.run_until(lambda: registered(brokers, active) == ids, within=5)
        brokers.kill(leaving)
        world.run_for(2)
        assert unregister(brokers, leaving) == []
        world.run_for(5)
        for number in (active, other):
            assert registered(brokers, number) == ids - {leaving}
            brokers.kill(number)
            brokers.start(number)
        brokers.await_up(active, other)
        world.run_for(5)
        assert registered(brokers, other) == ids - {leaving}, "nor does a restart bring it back"
        brokers.start(leaving)
        world.run_until(lambda: registered(brokers, other) == ids, within=20)
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

        brokers.run(grow, "grower")
        world.run_for(1)
        brokers.kill(103)
        brokers.nodes[103].lose_disk()
        brokers.start(103)
        world.run_until(lambda: 103 in brokers.keeping, within=60)
        world.run_for(2)
        core = brokers.keeping[103].controller.raft.core
        assert core.member.voters == (101, 102, 103)
        assert not core.member.is_voter
        (said,) = [each for each in brokers.lines[103] if "this controller's disk is not" in each]
        known = format_uuid(core.member.directories[103])
        assert f"`moldau quorum remove 103 --directory-id {known}`" in said
        assert f"`moldau quorum add 103 --at CONTROLLER://b103:{CONTROLLER_PORT}`" in said

        async def again(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await remove(admin, 103)
                await add(admin, 103)

        brokers.run(again, "again")
        world.run_until(lambda: core.member.is_voter, within=10)
        assert not brokers.failures


@pytest.mark.parametrize("seed", SEEDS)
def test_voters_come_and_go_under_faults(seed: int) -> None:
    random = Random(seed)
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world, 1, controllers=4, first_voter=101)
        brokers.await_up()
        maker = Maker(brokers.bootstrap_servers)
        made = brokers.start_program(maker.make, "maker")
        changes: list[int] = []

        async def keep_changing(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                while not maker.is_ending:
                    try:
                        quorum = await admin.describe_quorum()
                        ids = [each.node_id for each in quorum.voters]
                        others = sorted(set(brokers.controller_ids) - set(ids))
                        if random.random() < 0.2:
                            await admin.unregister_controller(random.choice(brokers.controller_ids))
                        if others and (len(ids) < 3 or random.random() < 0.5):
                            await add(admin, random.choice(others))
                        elif len(ids) > 2:
                            await remove(admin, random.choice(ids))
                        changes.append(len(ids))
                    except (KafkaError, ValueError):
                        await asyncio.sleep(0.2)
                    await asyncio.sleep(random.uniform(0.1, 2))

        changer = brokers.start_program(keep_changing, "changer")
        world.run_for(5)
        suffer(brokers, random, 6, heals=1.0)
        await_more(brokers, None, maker)
        maker.is_ending = True
        world.run_until(lambda: made.is_done and changer.is_done, within=180)
        world.run_for(3)
        brokers.run(maker.check, "auditor")
        assert len(changes) > 3
        assert registered(brokers, 1) == set(brokers.controller_ids), "all of them run"
        assert not brokers.failures, brokers.failures


def raise_level(brokers: SimulatedBrokers) -> None:
    """Raise kraft.version to 1, once the leader knows all voters."""

    async def ask(runtime: Runtime) -> None:
        servers = brokers.bootstrap_servers
        async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
            while True:
                try:
                    await admin.update_features({"kraft.version": 1})
                except KafkaError as error:
                    if error.code != ErrorCode.INVALID_UPDATE_VERSION:
                        raise
                    await asyncio.sleep(0.5)
                else:
                    return

    brokers.run(ask, "raiser", within=60)


def test_voters_of_the_settings_go_into_the_log_and_may_then_change() -> None:
    with new_world(3) as world:
        brokers = SimulatedBrokers(world, 2, controllers=3)
        brokers.await_up()
        assert not brokers.keeping[101].controller.quorum.voters.is_dynamic
        raise_level(brokers)
        world.run_for(2)
        for number in brokers.controller_ids:
            known = brokers.keeping[number].controller.quorum
            assert known.voters.kraft_version == 1
            assert known.voters.ids == (101, 102, 103)
            assert all(each.directory_id != ZERO_UUID for each in known.voters.voters)
            assert {each.endpoints for each in known.voters.voters} == {
                (("CONTROLLER", f"b{each}", CONTROLLER_PORT),) for each in (101, 102, 103)
            }

        async def change(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await remove(admin, 103)

        brokers.run(change, "changer", within=30)
        for number in brokers.node_ids:
            brokers.kill(number)
            brokers.start(number)  # the settings still name the three
        brokers.await_up()
        world.run_for(3)
        assert voters(brokers, 101) == voters(brokers, 102) == {101, 102}
        assert not brokers.keeping[103].controller.raft.core.member.is_voter

        async def again(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                await add(admin, 103)

        brokers.run(again, "again", within=30)
        world.run_until(
            lambda: brokers.keeping[103].controller.raft.core.member.is_voter, within=10
        )
        assert not brokers.failures


def test_the_level_waits_for_a_voter_that_its_leader_does_not_know() -> None:
    with new_world(4) as world:
        brokers = SimulatedBrokers(world, 1, controllers=3)
        brokers.await_up()
        down = next(each for each in brokers.controller_ids if each != brokers.controller())
        brokers.kill(down)
        first = brokers.controller()
        brokers.kill(first)  # what it was told is gone with it
        brokers.start(first)
        world.run_until(lambda: brokers.controller() not in (-1, down), within=60)
        world.run_for(5)
        reasons = []

        async def refused(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                with pytest.raises(KafkaError) as caught:
                    await admin.update_features({"kraft.version": 1})
                reasons.append(str(caught.value))

        brokers.run(refused, "refused", within=60)
        assert f"of the voters [{down}] this leader does not know" in reasons[0]
        brokers.start(down)
        raise_level(brokers)
        assert not brokers.failures


@pytest.mark.deep
@pytest.mark.parametrize("seed", SEEDS)
def test_the_level_is_raised_under_faults(seed: int) -> None:
    random = Random(seed)
    with new_world(seed) as world:
        brokers = SimulatedBrokers(world, 1, controllers=3)
        brokers.await_up()
        maker = Maker(brokers.bootstrap_servers)
        made = brokers.start_program(maker.make, "maker")

        async def keep_raising(runtime: Runtime) -> None:
            servers = brokers.bootstrap_servers
            async with Admin(runtime=runtime, bootstrap_servers=servers) as admin:
                while True:
                    try:
                        await admin.update_features({"kraft.version": 1})
                    except KafkaError:
                        await asyncio.sleep(random.uniform(0.1, 1))
                    else:
                        return

        raiser = brokers.start_program(keep_raising, "raiser")
        suffer(brokers, random, 6, heals=1.0)
        await_more(brokers, None, maker)
        world.run_until(lambda: raiser.is_done, within=120)
        maker.is_ending = True
        world.run_until(lambda: made.is_done, within=180)
        world.run_for(3)
        brokers.run(maker.check, "auditor")
        levels = {each.controller.quorum.voters.kraft_version for each in brokers.keeping.values()}
        assert levels == {1}
        assert not brokers.failures, brokers.failures
