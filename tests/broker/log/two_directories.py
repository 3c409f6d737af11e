"""A process with two log directories on a simulated disk."""

from __future__ import annotations

from random import Random

from moldau.broker.log.directories import LogDirectories
from moldau.broker.log.meta_properties import MetaProperties, write_meta_properties
from moldau.broker.log.names import TopicPartition
from moldau.runtime.files import Files
from moldau.runtime.simulated.disk import SimulatedDisk
from moldau.runtime.simulated.incarnation import Incarnation
from tests.broker.log.machine import NOW, SMALL

CLUSTER = "cluster"

PATHS = ("/a", "/b")

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 2)

TOPIC_ID = bytes(range(16))

UNIQUE = bytes(16)


class Node:
    """Two formatted directories and the process that has them."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimulatedDisk(Random(seed), now_ms=lambda: NOW)
        self.begin_life()
        for number, path in enumerate(PATHS, 1):
            self.files.make_dirs(path)
            meta = MetaProperties(CLUSTER, 1, bytes(15) + bytes([number]))
            write_meta_properties(self.files, path, meta)

    def begin_life(self) -> None:
        self.incarnation = Incarnation("node")
        self.files: Files = self.disk.files(self.incarnation)

    def open(self) -> LogDirectories:
        opened = LogDirectories.open(self.files, PATHS, CLUSTER, 1)
        opened.load(lambda partition, topic_id: SMALL, NOW)
        return opened

    def lose_power(self) -> None:
        self.incarnation.poison()
        self.disk.power_loss()
        self.begin_life()
