"""A node of a cluster inside another program, found by `moldau.testing` through an entry point.

It formats its directory if that is empty, and runs as its settings say: as a broker, as a
controller, or as both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from moldau.broker.controller.image import Image
from moldau.broker.controller.storage import format_storage
from moldau.broker.server.broker import Broker
from moldau.broker.server.channel import LocalController
from moldau.broker.server.controller_node import ControllerNode
from moldau.broker.server.standalone import standalone_layer
from moldau.broker.server.storage import format_if_empty, plan_of
from moldau.broker.settings import broker_settings
from moldau.broker.settings import node as rows
from moldau.config import Settings, overrides
from moldau.logging import Level, Loggers
from moldau.runtime import Runtime

NOBODY: Final = -1


class ClusterNode:
    """A running node. Satisfies `moldau.testing.RunningNode`."""

    def __init__(self, process: Broker | ControllerNode) -> None:
        self.process = process

    @property
    def broker(self) -> Broker | None:
        """The broker; None if the node is only a controller."""
        return self.process if isinstance(self.process, Broker) else None

    @property
    def image(self) -> Image:
        """The committed metadata that the node has published."""
        process = self.process
        return process.node.image if isinstance(process, Broker) else process.image

    @property
    def metadata_offset(self) -> int:
        """The offset after the last metadata record that the node has published."""
        process = self.process
        return process.node.metadata_offset if isinstance(process, Broker) else process.published

    @property
    def is_active_controller(self) -> bool:
        """Whether the node leads the metadata quorum."""
        process = self.process
        if isinstance(process, ControllerNode):
            return process.controller.active is not None
        controller = process.node.controller
        return isinstance(controller, LocalController) and controller.active is not None

    def leader_of(self, topic: str, index: int) -> int:
        """Return the broker that leads the partition, as the node knows it; -1 if none does."""
        known = self.image.topics.by_name(topic)
        partition = None if known is None else known.partitions.get(index)
        return NOBODY if partition is None else partition.leader

    def isr_of(self, topic: str, index: int) -> frozenset[int]:
        """Return the replicas in sync, as the node knows them."""
        known = self.image.topics.by_name(topic)
        partition = None if known is None else known.partitions.get(index)
        return frozenset() if partition is None else frozenset(partition.isr)

    async def wait(self) -> None:
        """Wait until the node cannot continue, and raise the reason."""
        await self.process.wait()

    async def aclose(self) -> None:
        """Stop the node in order."""
        await self.process.aclose()


async def start_cluster_node(
    runtime: Runtime,
    directory: str,
    settings: Mapping[str, str],
    cluster_id: str,
    write_line: Callable[[str], object],
    *,
    is_first_voter: bool | None = None,
) -> ClusterNode:
    """Start a node, which takes part in the cluster when this returns.

    `is_first_voter` is None if the settings name the voters. If the log names them, it says whether
    the quorum begins with this node.
    """
    given = broker_settings(standalone_layer(directory), overrides(dict(settings)))
    _format(runtime, given, cluster_id, is_first_voter)
    loggers = Loggers(runtime.clock, write_line, level=Level.INFO)
    start = Broker.start if "broker" in given[rows.process_roles] else ControllerNode.start
    return ClusterNode(await start(runtime, given, loggers=loggers, host_name=runtime.node))


def _format(
    runtime: Runtime, settings: Settings, cluster_id: str, is_first_voter: bool | None
) -> None:
    files, now_ms = runtime.files, runtime.clock.wall_ms()
    if is_first_voter is not None:
        plan = plan_of(settings, cluster_id, is_standalone=is_first_voter, host_name=runtime.node)
        format_storage(files, plan, runtime.random, now_ms, ignore_formatted=True)
    format_if_empty(files, settings, runtime.random, now_ms, runtime.node, cluster_id)
