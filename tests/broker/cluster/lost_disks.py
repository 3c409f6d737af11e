"""Controllers that lose their disks while others are down, and what the cluster says of it."""

from __future__ import annotations

from random import Random

from tests.broker.cluster.metadata_watch import MetadataWatch, replicas
from tests.broker.cluster.traffic import Maker
from tests.broker.cluster.world import SimulatedBrokers, new_world

QUIET_S = 20.0
"""Many elections fit into it."""


class Controllers:
    """One broker, three controllers that the settings name, and a client that makes topics."""

    def __init__(self, brokers: SimulatedBrokers) -> None:
        self.brokers = brokers
        self.world = brokers.world
        self.maker = Maker(brokers.bootstrap_servers)
        brokers.await_up()
        MetadataWatch(brokers).begin()
        self.world.run_until(lambda: not self.marked(), within=10)
        self._made = brokers.start_program(self.maker.make, "maker")
        self.world.run_for(1)

    def marked(self) -> set[int]:
        """The controllers with an empty disk that have not caught up."""
        return {number for number, raft in replicas(self.brokers) if raft.core.has_empty_disk}

    def said(self, number: int, words: str) -> int:
        """How many lines of that node have the words."""
        return sum(words in line for line in self.brokers.lines[number])

    def make_more(self) -> None:
        """Topics are acknowledged."""
        known = len(self.maker.made)
        self.world.run_until(lambda: len(self.maker.made) > known + 5, within=60)

    def lose_disk(self, number: int) -> None:
        """The controller is down, and its next start finds an empty disk."""
        self.brokers.kill(number)
        self.brokers.nodes[number].lose_disk()

    def end(self) -> None:
        """Everything that was acknowledged is there, and all controllers vote."""
        self.brokers.heal()
        self.brokers.await_up()
        self.world.run_until(lambda: not self.marked(), within=60)
        self.make_more()
        self.maker.is_ending = True
        self.world.run_until(lambda: self._made.is_done, within=60)
        self.world.run_for(2)
        self.brokers.run(self.maker.check, "auditor", within=30)
        assert not self.brokers.failures, self.brokers.failures


def a_voter_loses_its_disk_while_another_is_down(seed: int) -> None:
    """1. One of three controllers is down, and the other two acknowledge topics. 2. These go down
    too, and one of them loses its disk. 3. It comes back with the one that was down from the
    beginning: they are a majority, and neither holds what was acknowledged."""
    random = Random(seed)
    with new_world(seed) as world:
        at = Controllers(SimulatedBrokers(world, 1, controllers=3))
        brokers = at.brokers
        behind, wiped, keeper = random.sample(sorted(brokers.controller_ids), 3)
        brokers.kill(behind)
        at.make_more()
        brokers.kill(keeper)
        at.lose_disk(wiped)
        brokers.start(behind)
        brokers.start(wiped)
        world.run_for(QUIET_S)
        assert brokers.controller() == -1, "a majority that has lost metadata has elected"
        assert at.said(wiped, "withholds its vote") in range(1, 3), "said, and not too often"
        assert at.said(wiped, f"start=[{keeper}]") >= 1
        assert at.said(wiped, "disk was empty when it started, and other voters have") == 1
        brokers.start(keeper)
        at.end()
        assert at.said(wiped, "votes like any other again") == 1
