"""A simulated cluster as tests of the broker see it: with the inside of its nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final, cast

from moldau.broker.log.log import PartitionLog
from moldau.broker.log.names import TopicPartition
from moldau.broker.server import Broker
from moldau.broker.server.cluster_node import ClusterNode
from moldau.broker.server.controller_node import ControllerNode
from moldau.runtime.simulated import Options, Simulation
from moldau.testing.simulated_cluster import CONTROLLER_PORT as CONTROLLER_PORT
from moldau.testing.simulated_cluster import SimulatedCluster

SMALL_FILES: Final = {"log.index.size.max.bytes": "65536"}
"""Enough for what a simulation writes: an index file reserves 10 MiB else, of memory."""


class SimulatedBrokers(SimulatedCluster):
    """Nodes `b1`, `b2`, ...; settings are given as keywords, with underscores."""

    def __init__(
        self,
        world: Simulation,
        count: int = 3,
        *,
        controllers: int = 0,
        first_voter: int | None = None,
        **given: str,
    ) -> None:
        own = {name.replace("_", "."): value for name, value in given.items()}
        settings = {**SMALL_FILES, **own}
        super().__init__(
            world, count, controllers=controllers, first_voter=first_voter, settings=settings
        )
        self._numbers = {node.name: number for number, node in self.nodes.items()}

    @property
    def members(self) -> Mapping[int, ClusterNode]:
        """The nodes that take part now, or stop in order."""
        return cast("Mapping[int, ClusterNode]", {**self.up, **self.closing})

    @property
    def touched(self) -> Mapping[int, ClusterNode]:
        """The members that the present event may have changed. An event of a node changes only that
        one; after any other event, of the world or of a client, these are all members."""
        life = self.world.loop.life
        number = None if life is None else self._numbers.get(life.name)
        if number is None:
            return self.members
        found = self.up.get(number) or self.closing.get(number)
        return {} if found is None else {number: cast("ClusterNode", found)}

    @property
    def running(self) -> dict[int, Broker]:
        """The brokers among them."""
        found = {number: each.broker for number, each in self.members.items()}
        return {number: broker for number, broker in found.items() if broker is not None}

    @property
    def keeping(self) -> dict[int, ControllerNode]:
        """The nodes among them that are only controllers."""
        return {
            number: each.process
            for number, each in self.members.items()
            if isinstance(each.process, ControllerNode)
        }

    def logs(self, topic: str, index: int = 0) -> dict[int, PartitionLog]:
        """Each replica's log."""
        place = TopicPartition(topic, index)
        return {
            number: directory.logs[place]
            for number, broker in self.running.items()
            for directory in broker.node.directories.directories
            if place in directory.logs
        }

    def logs_of(self, topic: str, index: int = 0) -> dict[int, bytes]:
        """The bytes of each replica's log."""
        return {
            number: b"".join(bytes(batch.data) for batch in log.batches(log.log_start_offset))
            for number, log in self.logs(topic, index).items()
        }

    def digests_of(self, topic: str, index: int = 0) -> dict[int, dict[int, str]]:
        """Of each replica's log: a digest of each batch, by its offset."""
        return {
            number: {
                batch.header.base_offset: hashlib.blake2b(batch.data, digest_size=8).hexdigest()
                for batch in log.batches(log.log_start_offset)
            }
            for number, log in self.logs(topic, index).items()
        }


def new_world(seed: int) -> Simulation:
    return Simulation(seed, Options())
