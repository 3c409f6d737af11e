"""Builds the parts of a node that know the node, so that `node` itself knows only their types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.broker.api.coordination import GroupsNode
from moldau.broker.api.fetch_session_cache import FetchSessions
from moldau.broker.api.producer_id_block import ProducerIdBlocks
from moldau.broker.api.quota.waits import ThrottleTimes
from moldau.broker.api.share_dead_letters import DeadLetters
from moldau.broker.api.share_persister import SharePersister
from moldau.broker.api.telemetry import ClientTelemetry
from moldau.broker.coordinator.kind import KeyType
from moldau.broker.settings import fetch as fetch_settings
from moldau.broker.share.partitions import SharePartitions

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.coordinator.coordinators import Coordinators


def assemble(node: Node, make_coordinators: Callable[[Node], Coordinators]) -> Node:
    """Give the node its parts, and return it. `make_coordinators` creates its coordinators, from
    the server's table."""
    slots = node.settings[fetch_settings.max_incremental_fetch_session_cache_slots]
    node.fetch_sessions = FetchSessions(slots, node.runtime.random)
    node.producer_ids = ProducerIdBlocks(node)
    node.quotas = ThrottleTimes(node)
    node.coordinator_node = GroupsNode(node)
    node.share_persister = SharePersister(node)
    node.dead_letters = DeadLetters(node)
    node.shares = SharePartitions(node.coordinator_node)
    node.telemetry = ClientTelemetry(node)
    node.coordinators = make_coordinators(node)
    node.groups = node.coordinators.of(KeyType.GROUP)
    return node
