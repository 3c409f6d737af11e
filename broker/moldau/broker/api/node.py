"""The node as API handlers see it: the state they read, and the ways to request changes.

Invariants: `image`, `metadata_offset` and `settings` change only between two requests, when
committed metadata is published. `image` is never ahead of what is committed. Handlers change
nothing here: durable changes go through `controller` or into a log.

All connections and listeners share one object. What differs between listeners is in the request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from moldau.broker.api.refused_starts import RefusedStarts
from moldau.broker.decision.authorizer import ALLOW_ALL
from moldau.broker.replication.lost_brokers import LostBrokers
from moldau.broker.settings import topic_settings
from moldau.deferred import dataclass
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.link.login.one_thread import OneThread
from moldau.protocol.declare import Request, Response

if TYPE_CHECKING:
    from moldau.broker.api.coordination import GroupsNode
    from moldau.broker.api.fetch_session_cache import FetchSessions
    from moldau.broker.api.producer_id_block import ProducerIdBlocks
    from moldau.broker.api.quota.waits import ThrottleTimes
    from moldau.broker.api.share_dead_letters import DeadLetters
    from moldau.broker.api.share_persister import SharePersister
    from moldau.broker.api.telemetry import ClientTelemetry
    from moldau.broker.controller.image import Image
    from moldau.broker.coordinator.coordinators import Coordinators
    from moldau.broker.coordinator.group.coordinator import GroupCoordinator
    from moldau.broker.decision.authorizer import Authorizer
    from moldau.broker.decision.context import RequestContext
    from moldau.broker.log.directories import LogDirectories
    from moldau.broker.replication.partition import Partition
    from moldau.broker.replication.replicas import Replicas
    from moldau.broker.settings import ResourceSettings
    from moldau.broker.share.partitions import SharePartitions
    from moldau.config import Settings
    from moldau.link import Peers
    from moldau.logging import Logger, Loggers
    from moldau.metrics import Registry
    from moldau.protocol.versions import Versions
    from moldau.runtime import Runtime

OnAnswer: TypeAlias = Callable[[Response | KafkaError], None]


class Undecided(KafkaError):
    """The controller did not process the request, so it is safe to send it again."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER)


class ControllerChannel(Protocol):
    """Sends requests to the active controller, on this node or another."""

    def submit(self, request: Request, context: RequestContext, on_answer: OnAnswer) -> None:
        """Send the request to the active controller. `on_answer` is called once, perhaps before
        this returns; for a change, after it is committed. If the controller is on this node,
        `image` includes the change then. `Undecided` means that no controller decided; another
        KafkaError means that the result is unknown.

        `context` describes the client whose request this is or causes, with the version in which
        `request` is written. It is `of_node` for a request of this node itself.
        """
        ...


@dataclass(slots=True)
class Node:
    """This node; see the module. The server fills in the fields without a default, and `assembly`
    those that are no arguments."""

    runtime: Runtime
    node_id: int
    cluster_id: str
    settings: Settings
    """The broker's settings with the dynamic layers applied. Replaced as a whole."""
    image: Image
    """The committed metadata."""
    metadata_offset: int
    """The offset after the last record that is in `image`."""
    replicas: Replicas
    directories: LogDirectories
    controller: ControllerChannel
    endpoints: Mapping[str, tuple[str, int]]
    """This broker's advertised host and port, by listener name. Other brokers' are in `image`."""
    features: Mapping[str, Versions]
    """The levels that this code supports, by feature, for ApiVersions."""
    log: Logger
    metrics: Registry
    broker_epoch: int = -1
    """The epoch of the current registration. The server sets it."""
    kraft_version: Callable[[], int] = lambda: 0
    """Returns the level of the quorum's own protocol: the one feature that no record holds."""
    authorizer: Authorizer = ALLOW_ALL
    """Knows the rights of clients. The gates and the handlers ask it."""
    loggers: Loggers | None = None
    """The loggers of the process, whose levels BROKER_LOGGER changes. None: unchangeable."""
    on_follower_caught_up: Callable[[Partition, int], None] = lambda partition, replica_id: None
    """Called with the id of a follower that could join the ISR of a partition led by this node."""
    copy_segments: Callable[[Partition], bool] | None = None
    """Copies all of a tiered partition to remote storage at once, its active segment too. False: it
    is not known yet what is remote. None: this node has no remote storage."""
    peers: Peers | None = None
    """The connections to the other brokers. None: there is no other."""
    requests: defaultdict[int, int] = field(init=False, default_factory=lambda: defaultdict(int))
    """The number of requests of clients and brokers, by API key."""
    lost_brokers: LostBrokers = field(init=False, default_factory=LostBrokers)
    """The brokers that may be fenced in a moment, or were a moment ago. It is also the key in the
    purgatory for requests that wait until that is known."""
    topics_in_creation: set[str] = field(init=False, default_factory=set)
    """Topics that a Metadata request asked the controller to create. While it has not answered, no
    second request is sent for them."""
    unconfirmed_bytes: int = field(init=False, default=0)
    """The bytes of batches that wait until the coordinator of their transaction has answered."""
    unchecked_bytes: int = field(init=False, default=0)
    """The bytes of large batches that wait for their check in a thread."""
    large_batches: OneThread = field(init=False, default_factory=OneThread)
    """Checks large batches, one at a time."""
    large_lookups: OneThread = field(init=False, default_factory=OneThread)
    """Reads large batches for ListOffsets, one at a time."""
    refused_starts: RefusedStarts = field(init=False, default_factory=RefusedStarts)
    """The first batches of producers in partitions that are refused and will come again."""
    producer_ids: ProducerIdBlocks = field(init=False)
    quotas: ThrottleTimes = field(init=False)
    """How long clients wait because of their quotas."""
    fetch_sessions: FetchSessions = field(init=False)
    coordinators: Coordinators = field(init=False)
    coordinator_node: GroupsNode = field(init=False)
    """The node as groups see it: the settings of each group."""
    share_persister: SharePersister = field(init=False)
    """The way to the share coordinator, on this node or another."""
    dead_letters: DeadLetters = field(init=False)
    """The way to the topics of dead letters."""
    shares: SharePartitions = field(init=False)
    """The share partitions and share sessions of this node."""
    telemetry: ClientTelemetry = field(init=False)
    """The metrics that clients push."""
    groups: GroupCoordinator = field(init=False)
    """The coordinator of groups, which many requests use."""
    _topic_settings: dict[str, tuple[dict[str, str], ResourceSettings]] = field(
        init=False, default_factory=dict
    )
    _unset: ResourceSettings | None = field(init=False, default=None)

    def now_ms(self) -> int:
        """Return the monotonic time, which deadlines are given in."""
        return self.runtime.clock.monotonic_ns() // 1_000_000

    def topic_settings(self, name: str) -> ResourceSettings:
        """Return the topic's own settings on top of the broker's current ones. Cached."""
        values = self.image.configs.of_topic(name)
        if not values:
            unset = self._unset
            if unset is None or unset.broker is not self.settings:
                unset = self._unset = topic_settings("", {}, self.settings, is_stored=True)
            return unset
        known = self._topic_settings.get(name)
        if known is not None and known[0] == values:
            if known[1].broker is self.settings:
                return known[1]
            settings = known[1].with_broker(self.settings)
        else:
            settings = topic_settings(name, values, self.settings, is_stored=True)
        if len(self._topic_settings) > 2 * len(self.image.configs.by_resource):
            self._topic_settings.clear()  # drops entries of deleted topics
        self._topic_settings[name] = (dict(values), settings)
        return settings

    def endpoint_of(self, node_id: int, listener: str) -> tuple[str, int] | None:
        """Return the address at which a client of `listener` reaches that node; None if it has no
        such listener."""
        if node_id == self.node_id:
            return self.endpoints.get(listener)
        broker = self.image.brokers.by_id.get(node_id)
        if broker is not None and not broker.is_fenced:
            for endpoint in broker.endpoints:
                if endpoint.name == listener:
                    return endpoint.host, endpoint.port
        return None
