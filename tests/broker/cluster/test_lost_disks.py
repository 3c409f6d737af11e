"""Controllers of the settings that lose their disks: nothing acknowledged is lost, and each says
what to do. The scene with another one down is in `scenes`."""

from __future__ import annotations

from tests.broker.cluster.lost_disks import Controllers
from tests.broker.cluster.world import SimulatedBrokers, new_world


def test_two_whole_controllers_elect_without_the_third_which_then_follows() -> None:
    with new_world(41) as world:
        at = Controllers(SimulatedBrokers(world, 1, controllers=3))
        brokers = at.brokers
        leader = brokers.controller()
        at.lose_disk(leader)
        brokers.start(leader)
        at.make_more()
        world.run_until(lambda: leader in brokers.keeping and not at.marked(), within=60)
        assert brokers.controller() not in (-1, leader)
        assert at.said(leader, "votes like any other again") == 1
        at.end()


def test_a_voter_that_has_caught_up_with_an_empty_disk_elects_again() -> None:
    with new_world(42) as world:
        at = Controllers(SimulatedBrokers(world, 1, controllers=3))
        brokers = at.brokers
        wiped, other = (each for each in brokers.controller_ids if each != brokers.controller())
        at.lose_disk(wiped)
        brokers.start(wiped)
        world.run_until(lambda: wiped in brokers.keeping and not at.marked(), within=60)
        brokers.kill(other)
        brokers.kill(wiped)
        brokers.start(wiped)
        at.make_more()
        at.end()


def test_two_disks_of_three_are_lost_one_after_the_other_and_the_last_one_elects_with_both() -> (
    None
):
    """A voter whose disk is lost for good comes back with an empty one: that is what the warning
    says to do, and the log of the last voter is then the longest of all."""
    with new_world(43) as world:
        at = Controllers(SimulatedBrokers(world, 1, controllers=3))
        brokers = at.brokers
        keeper, *lost = brokers.controller_ids
        world.run_for(1)  # until all three hold everything
        for number in brokers.controller_ids:
            brokers.kill(number)
        for number in lost:
            at.lose_disk(number)
        brokers.start(keeper)
        brokers.start(lost[0])
        world.run_for(10)
        assert brokers.controller() == -1
        brokers.start(lost[1])
        world.run_until(lambda: brokers.controller() == keeper, within=60)
        at.end()


def test_controllers_of_a_new_cluster_say_nothing_of_empty_disks() -> None:
    with new_world(44) as world:
        at = Controllers(SimulatedBrokers(world, 1, controllers=3))
        for number in at.brokers.controller_ids:
            assert at.said(number, "disk was empty") == 0
            assert at.said(number, "the first metadata is on this controller's disk") == 1
        at.end()
