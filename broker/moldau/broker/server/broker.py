"""A broker from start to exit: every part is made, in order, and closed in the reverse order.

Start: take the directories -> open the metadata log and wait for the committed metadata -> load the
logs, recovering what needs it -> publish the metadata to the replicas -> bind the listeners,
without admitting clients -> register -> first heartbeat, which unfences -> wait for the other
shards of this host, if there is no topic yet -> admit clients.

End: close the listeners -> give up leaderships and tell the controller -> answer waiting requests,
send the responses -> stop the work on logs -> close the metadata log, then all logs, and write the
clean shutdown marker.

Invariants: no client is served before this broker may lead, nor after it gave that up. After a
failed start, and after `aclose`, no directory is locked, no port is bound, and no task is left. The
clean shutdown marker is written only for logs that were loaded and closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from errno import EADDRNOTAVAIL
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.broker.api.assembly import assemble
from moldau.broker.api.describe_configs import ConfigView
from moldau.broker.api.node import Node
from moldau.broker.api.service import BrokerService
from moldau.broker.controller.levels import SUPPORTED
from moldau.broker.controller.metadata_batches import deleted_topics
from moldau.broker.controller.stored_settings import check_stored
from moldau.broker.log.clean_shutdown import NO_BROKER_EPOCH
from moldau.broker.log.directories import LogDirectories
from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.meta_properties import check_meta_properties
from moldau.broker.log.open_files import advice, connections_max, controller_connections_max
from moldau.broker.network import NetworkMetrics, SocketServer
from moldau.broker.network.limits import plain_address
from moldau.broker.replication import metrics as replica_metrics
from moldau.broker.replication.purgatory import Purgatory
from moldau.broker.replication.replicas import Replicas
from moldau.broker.server.authorization import (
    audit_maker,
    authorizer_of,
    close_audit,
    note_ready,
    warn_of_dry_run,
)
from moldau.broker.server.channel import Audience, LocalController, kraft_version
from moldau.broker.server.controller_config import controller_config_of
from moldau.broker.server.coordinators import coordinators_of
from moldau.broker.server.lifecycle import NO_EPOCH, BrokerState, Identity, Lifecycle
from moldau.broker.server.membership import Membership
from moldau.broker.server.open_listeners import OpenListeners
from moldau.broker.server.options import limited_hosts, listener_options, network_options
from moldau.broker.server.placement import Placement, warn_of_missing
from moldau.broker.server.publishing import Publisher, with_dynamic
from moldau.broker.server.security import SecurityGround, secured
from moldau.broker.server.storage import cluster_of, places_of
from moldau.broker.server.waiting import HostShards, until_first
from moldau.broker.settings import Listener, Listeners, read_listeners, unbuilt
from moldau.broker.settings import node as node_settings
from moldau.broker.settings.tiered import remote_log_storage_system_enable
from moldau.deferred import deferred_pattern
from moldau.errors import ConfigError, MoldauError
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid, new_uuid
from moldau.logging import Loggers
from moldau.metrics import Registry
from moldau.protocol.versions import Versions

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.broker.decision.authorizer import Authorizer
    from moldau.broker.log.log_config import LogConfig
    from moldau.broker.log.names import TopicPartition
    from moldau.broker.network import ListenerOptions, OpenDirect
    from moldau.broker.network.options import NetworkOptions
    from moldau.broker.network.request import Service
    from moldau.broker.server.replication import Replication
    from moldau.broker.server.storage import Places
    from moldau.broker.tiered.node_tier import NodeTier
    from moldau.config import Settings
    from moldau.runtime import Runtime

LOGGER: Final = "moldau.broker"
_BIND_WORDS: Final = deferred_pattern(r"error while attempting to bind on address .*: ")
LOCAL: Final = "localhost"
LOCAL_IPV4: Final = "127.0.0.1"
LEAVE_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 10.0


class Address(NamedTuple):
    """A host and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class BrokerFailed(MoldauError):
    """The operating system refused something, so the broker cannot start or continue."""


class Broker:
    """A node with the broker role, and perhaps the controller role too. `start` makes it."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        loggers: Loggers,
        open_direct: OpenDirect | None,
        shards: Collection[int],
    ) -> None:
        self.endpoints: Mapping[str, Address] = {}
        """The advertised addresses for clients, by listener name."""
        self.listeners: Mapping[str, Address] = {}
        """The bound addresses, by listener name, with the port that the system chose for port 0."""
        self.failure: Exception | None = None
        """The reason why the broker cannot continue; None while it runs."""
        self._runtime = runtime
        self._settings = settings
        self._registry = registry = Registry()
        self._loggers = loggers
        self._log = loggers.get(LOGGER).bind(node=settings[node_settings.node_id])
        self._open_direct = open_direct
        self.network_metrics = NetworkMetrics(registry)
        self._places = places_of(settings)
        self._publisher = Publisher(settings, self._on_settings, self._on_brokers)
        self._ended = asyncio.Event()
        self._host = HostShards(shards)
        self._is_closed = False
        self._address_limits: Mapping[str, int] = {}
        # Made in this order, and closed in the reverse order.
        self._directories: LogDirectories | None = None
        self._metadata_directory: LogDirectory | None = None
        self._controller: LocalController | None = None
        self._controller_sockets: SocketServer | None = None
        self._authorizer: Authorizer | None = None
        self._is_loaded = False
        self._node: Node | None = None
        self._sockets: SocketServer | None = None
        self._open_listeners: OpenListeners | None = None
        self._membership: Membership | None = None
        self._placement: Placement | None = None
        self._replication: Replication | None = None
        self.remote_storage: NodeTier | None = None

    @classmethod
    async def start(
        cls,
        runtime: Runtime,
        settings: Settings,
        *,
        loggers: Loggers | None = None,
        open_direct: OpenDirect | None = None,
        host_name: str | None = None,
        shards: Collection[int] = (),
    ) -> Broker:
        """Start a broker that serves clients. `host_name` is advertised where listeners name no
        host. `open_direct` enables sendfile. Without `loggers` nothing is logged. `shards` are the
        node ids of all brokers of this host, if it has several.

        Raise ConfigError or BadSettings if the settings are impossible, BrokerFailed or OSError if
        the machine refuses, and CorruptLog if the data on disk cannot be used.
        """
        lines = loggers or Loggers(runtime.clock, lambda line: None)
        broker = cls(runtime, settings, lines, open_direct, shards)
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(broker.aclose)
            await broker._start(host_name or runtime.node)
            on_failure.pop_all()
        return broker

    @property
    def node(self) -> Node:
        """The state that request handlers use."""
        assert self._node is not None, "not started"
        return self._node

    @property
    def controller(self) -> LocalController:
        """This node's part in the quorum."""
        assert self._controller is not None, "not started"
        return self._controller

    @property
    def state(self) -> BrokerState:
        """The broker's state."""
        membership = self._membership
        return BrokerState.STARTING if membership is None else membership.lifecycle.state

    async def wait(self) -> None:
        """Wait until the broker cannot continue, and raise the reason. Otherwise it never returns;
        cancel it."""
        await self._ended.wait()
        assert self.failure is not None
        raise self.failure

    # Start.

    async def _start(self, host_name: str) -> None:
        _refuse_unbuilt(self._settings)
        log = self._loggers.get(f"{LOGGER}.security")
        self._authorizer = authorizer = authorizer_of(
            self._settings, lambda: self._publisher.image, audit_maker(self._runtime, log)
        )
        warn_of_dry_run(self._settings, log)
        cluster_id = cluster_of(self._runtime.files, self._settings)
        directories = self._take_directories(cluster_id)
        controller = self._open_controller(cluster_id)
        controller.authorizer = authorizer
        if not controller.is_alone:
            await self._join_quorum(controller)
        note_ready(authorizer)
        self._check_stored()
        await self._load(directories)
        node = self._make_node(cluster_id, directories, controller)
        self._placement = placement = Placement(node)
        node.replicas.on_placed = placement.note
        deleted = cache(lambda: deleted_topics(controller.quorum.history()))
        node.replicas.deleted_topics = deleted
        if not controller.is_alone:
            from moldau.broker.server.replication import Replication

            self._replication = Replication(node, self._log)
        if node.settings[remote_log_storage_system_enable]:
            from moldau.broker.server.remote_storage import remote_storage_of

            self.remote_storage = remote_storage_of(node, self._log, deleted)
        self._publisher.begin(node, self._log)
        warn_of_missing(node, self._log)
        node.replicas.deleted_topics = dict  # the logs are placed; it is not called again
        _refuse_failed(directories, self._places)
        await self._listen(node, host_name)
        membership = await self._join(node, controller, host_name)
        node.replicas.start(node.settings)
        membership.live()
        await self._host.wait(self._runtime, self._publisher.image, self._ended)
        self._let_in(node.settings)
        placement.live()
        if self._replication is not None:
            self._replication.live()
        if self.remote_storage is not None:
            self.remote_storage.live()
        self._log.info(
            "broker is up",
            cluster=cluster_id,
            epoch=node.broker_epoch,
            **{name.lower(): str(at) for name, at in self.endpoints.items()},
        )

    def _check_stored(self) -> None:
        """Check the stored dynamic settings as soon as the metadata is known: no listener at all is
        better than one that is open by mistake."""
        stored = self._publisher.image.configs.of_broker(self._settings[node_settings.node_id])
        check_stored(self._settings, stored, self._places.metadata)

    def _take_directories(self, cluster_id: str) -> LogDirectories:
        """Lock all directories, before any file is read that another process may write."""
        files, places = self._runtime.files, self._places
        node_id = self._settings[node_settings.node_id]
        if places.metadata not in places.logs:
            directory = LogDirectory.open(files, places.metadata)
            self._metadata_directory = directory
            if directory.meta is None:
                raise ConfigError("the directory is not formatted", directory=directory.path)
            check_meta_properties(directory.meta, cluster_id, node_id, directory.path)
        opened = LogDirectories.open(files, places.logs, cluster_id, node_id)
        self._directories = opened
        for path, error in opened.unopened.items():
            if path == places.metadata:
                raise error
        return opened

    def _open_controller(self, cluster_id: str) -> LocalController:
        controller = LocalController(
            self._runtime,
            controller_config_of(self._settings, cluster_id, self._places.metadata, self._host.ids),
            Audience(
                self._publisher.on_image,
                self._publisher.on_records,
                self._on_controller_reopened,
                self._end,
                lambda: self._publisher.image,
            ),
            self._log,
        )
        controller.open()
        self._controller = controller
        return controller

    async def _join_quorum(self, controller: LocalController) -> None:
        """Bind the controller listeners, and wait until this node knows the cluster's metadata."""
        from moldau.broker.server.controller_service import ControllerService

        settings = self._settings
        listeners = read_listeners(settings)
        node_id = settings[node_settings.node_id]
        sockets = SocketServer(
            self._runtime,
            network_options(settings, {}),
            self.network_metrics,
            self._loggers.get(f"{LOGGER}.network").bind(node=node_id),
            room=partial(self._connections_max, of_controller=True),
        )
        self._controller_sockets = sockets
        features = {name: Versions(*levels) for name, levels in SUPPORTED.items()}
        log = self._loggers.get(f"{LOGGER}.controller").bind(node=node_id)
        service = ControllerService(
            controller, features, lambda: self._publisher.image, self._config_view, log
        )
        ground = self._security_ground()
        for each in listeners.of_controller:
            await bind_listener(settings, sockets, each, listeners, (service, ground))
        controller.live()
        await until_first(self._runtime, metadata=controller.caught_up(), ended=self._ended.wait())
        if self.failure is not None:
            raise self.failure

    def _security_ground(self) -> SecurityGround:
        """Return what the security of this node's listeners stands on."""
        log = self._loggers.get(f"{LOGGER}.network").bind(
            node=self._settings[node_settings.node_id]
        )
        return SecurityGround.of(
            self._runtime,
            lambda: self._settings if self._node is None else self._node.settings,
            lambda: self._publisher.image.credentials,
            log,
        )

    def _config_view(self) -> ConfigView:
        """Return what the controller's listener describes of this node's settings."""
        node_id = self._settings[node_settings.node_id]
        return ConfigView(self._publisher.image, self._effective_settings(), node_id, self._loggers)

    async def _load(self, directories: LogDirectories) -> None:
        """Open every log, in a thread: recovery of many logs takes long, and signals must be
        handled meanwhile."""
        settings = self._effective_settings()
        configs: dict[str, LogConfig] = {}

        def config_of(partition: TopicPartition, topic_id: Uuid | None) -> LogConfig:
            known = configs.get(partition.topic)
            if known is None:
                known = self._publisher.config_of(settings, partition.topic).log
                configs[partition.topic] = known
            return known

        now_ms = self._runtime.clock.wall_ms()
        node_id = settings[node_settings.node_id]
        loading = self._runtime.run_blocking(
            directories.load, config_of, now_ms, self._publisher.home_of(node_id)
        )
        try:
            await asyncio.wait([loading])
        except asyncio.CancelledError:
            await asyncio.wait([loading])  # the thread must finish what it has begun
            raise
        loading.result()
        self._is_loaded = True

    def _effective_settings(self) -> Settings:
        node_id = self._settings[node_settings.node_id]
        return with_dynamic(self._settings, self._publisher.image, node_id)

    def _make_node(
        self, cluster_id: str, directories: LogDirectories, controller: LocalController
    ) -> Node:
        runtime, settings = self._runtime, self._effective_settings()
        node_id = settings[node_settings.node_id]
        purgatory = Purgatory(runtime.clock, asyncio.get_running_loop())
        replicas = Replicas(runtime, directories, node_id, purgatory, self._log)
        replicas.on_directory_failure = self._on_directory_failure
        replica_metrics.declare(self._registry, replicas)
        self._node = node = Node(
            runtime=runtime,
            node_id=node_id,
            cluster_id=cluster_id,
            settings=settings,
            image=self._publisher.image,
            metadata_offset=self._publisher.metadata_offset,
            replicas=replicas,
            directories=directories,
            controller=controller,
            endpoints={},
            features={name: Versions(*levels) for name, levels in SUPPORTED.items()},
            log=self._loggers.get(f"{LOGGER}.api").bind(node=node_id),
            metrics=self._registry,
            kraft_version=lambda: kraft_version(controller.quorum),
            authorizer=controller.authorizer,
            loggers=self._loggers,
        )
        return assemble(node, coordinators_of)

    async def _listen(self, node: Node, host_name: str) -> None:
        """Bind the listeners, without admitting clients before they can be served."""
        settings = node.settings
        listeners = read_listeners(settings)
        self._address_limits = await self._resolved(limited_hosts(settings))
        self._sockets = sockets = SocketServer(
            self._runtime,
            replace(self._network_options(settings), is_admitting=False),
            self.network_metrics,
            self._loggers.get(f"{LOGGER}.network").bind(node=node.node_id),
            self._open_direct,
            self._connections_max,
        )
        service = BrokerService(node)
        ground = self._security_ground()
        bound: dict[str, Address] = {}

        async def bind(settings: Settings, each: Listener, listeners: Listeners) -> int:
            port = await bind_listener(settings, sockets, each, listeners, (service, ground))
            bound[each.name] = Address(each.host, port)
            return port

        for each in listeners.of_broker:
            await bind(self._settings, each, listeners)
        self._open_listeners = OpenListeners(sockets, bind, listeners, self._log)
        if self._controller_sockets is None:
            for each in listeners.of_controller:
                # Only other voters, and brokers without the controller role, would connect there.
                self._log.info("opens no listener for controllers: it is alone", listener=each.name)
        self.listeners = bound
        self.endpoints = {
            each.name: Address(each.host or host_name, each.port or bound[each.name].port)
            for each in listeners.advertised_broker
        }
        node.endpoints = self.endpoints

    def _connections_max(self, *, of_controller: bool = False) -> int | None:
        """Return the number of connections that this process may have beside the files of its logs,
        to its controller or else to the broker; None if files are not limited."""
        limit = self._runtime.files.open_files_max()
        if limit is None:
            return None
        if self._controller_sockets is None and not of_controller:
            return connections_max(limit)
        for_controller = controller_connections_max(limit)
        return for_controller if of_controller else connections_max(limit) - for_controller

    async def _join(self, node: Node, controller: LocalController, host_name: str) -> Membership:
        """Register this broker, and wait until it is unfenced."""
        lifecycle = Lifecycle(self._identity(node, host_name), _previous_epoch(node.directories))
        membership = Membership(self._runtime, node, controller, lifecycle, self._log)
        self._membership = membership
        seconds = node.settings[node_settings.initial_broker_registration_timeout_ms] / 1000
        try:
            async with asyncio.timeout(seconds):
                await membership.join()
        except TimeoutError as error:
            raise BrokerFailed(
                "the controller did not register this broker in time; is another node with its "
                "node.id alive, or are the controllers down?",
                node_id=node.node_id,
            ) from error
        return membership

    def _identity(self, node: Node, host_name: str) -> Identity:
        listeners = read_listeners(node.settings)
        endpoints = tuple(
            replace(each, host=at.host, port=at.port)
            for each in listeners.advertised_broker
            for at in (self.endpoints[each.name],)
        )
        controllers: tuple[Listener, ...] = tuple(
            replace(each, host=each.host or host_name) for each in listeners.advertised_controller
        )
        return Identity(
            node_id=node.node_id,
            cluster_id=node.cluster_id,
            incarnation_id=new_uuid(self._runtime.random),
            rack=node.settings[node_settings.broker_rack],
            endpoints=endpoints,
            controller_endpoints=controllers,
            features=SUPPORTED,
            directory_ids=tuple(each.directory_id for each in node.directories.in_service()),
        )

    def _network_options(self, settings: Settings) -> NetworkOptions:
        return replace(
            network_options(settings, self._address_limits),
            connection_rate_of=lambda address: self._publisher.image.client_quotas.connection_rate(
                address
            ),
        )

    def _let_in(self, settings: Settings) -> None:
        assert self._sockets is not None
        listeners = read_listeners(settings)
        self._sockets.update(
            self._network_options(settings),
            [listener_options(settings, each, listeners) for each in listeners.of_broker],
        )

    # Running.

    def _on_brokers(self, image: Image) -> None:
        """Update the addresses of the other brokers, which may have changed."""
        self._host.on_image(image)
        if self._replication is not None:
            self._replication.update(image)
        if self.remote_storage is not None:
            self.remote_storage.look()

    def _on_settings(self, settings: Settings) -> None:
        """Apply changed dynamic settings, which are already in the node."""
        if self._sockets is None or self._is_closed:
            return
        if self._open_listeners is not None:
            self._runtime.spawn(self._open_listeners.apply(settings), name="broker-listeners")
        limits = limited_hosts(settings)
        self._runtime.spawn(self._apply_limits(limits), name="broker-limits")
        self.node.replicas.reconfigure(settings)
        if self.remote_storage is not None:
            self.remote_storage.configure(settings)
        if self._membership is not None:
            self._membership.stay()  # reports the cordoned directories

    async def _apply_limits(self, limits: Mapping[str, int]) -> None:
        """Apply the connection limits of hosts. Do nothing if other limits were set during the
        lookup of the hosts: those are applied on their own."""
        found = await self._resolved(limits)
        settings = self.node.settings
        if limits == limited_hosts(settings) and not self._is_closed:
            self._address_limits = found
            self._let_in(settings)

    async def _resolved(self, limits: Mapping[str, int]) -> Mapping[str, int]:
        """Return the limits by address instead of host name. The IPv6 zone is removed, because a
        peer's address does not have it."""
        found: dict[str, int] = {}
        for host, limit in limits.items():
            try:
                addresses = await self._runtime.network.resolve(host, 0)
            except OSError as error:
                self._log.failure("a host with a limit of its own is unknown", error, host=host)
                continue
            found.update(
                (plain_address(address.partition("%")[0]), limit) for address, _ in addresses
            )
        return found

    # Failures.

    def _on_directory_failure(self, directory: LogDirectory) -> None:
        """Report a failed directory. Its partitions are out of service already."""
        error, membership = directory.failure, self._membership
        assert error is not None
        if self._node is not None:
            self._node.coordinators.drop_unled()
        if directory.path == self._places.metadata:
            self._end(_failed("the directory of the metadata log failed", error))
        elif not self.node.directories.in_service():
            self._end(_failed("the last log directory failed", error))
        elif membership is not None:
            membership.offline.add(directory.directory_id)
            membership.stay()

    def _on_controller_reopened(self) -> None:
        """Send a heartbeat: a new controller does not know yet that this broker is alive."""
        self._log.info("the controller is back", offset=self._publisher.metadata_offset)
        if self._membership is not None:
            self._membership.stay()

    def _end(self, error: Exception) -> None:
        """Note that the broker cannot continue. `wait` raises the error; its caller closes."""
        if self.failure is None:
            self.failure = error
            self._log.failure("the broker stops", error)
            self._ended.set()

    # Closing.

    async def aclose(self) -> None:
        """Stop everything, in order. Close the files even if a part fails. Idempotent."""
        if self._is_closed:
            return
        self._is_closed = True
        is_quiet = False
        try:
            if self._sockets is not None:
                self._sockets.stop_listening()
            if self.remote_storage is not None:
                await self.remote_storage.aclose()
            if self._membership is not None:
                await self._leave(self._membership)
            if self._placement is not None:
                await self._placement.aclose()
            if self._replication is not None:
                await self._replication.aclose()
            if self._node is not None:
                self._node.coordinators.close()
                self._node.replicas.purgatory.close()
            if self._sockets is not None:
                await self._sockets.aclose(DRAIN_SECONDS)
            if self._node is not None:
                await self._node.replicas.aclose()
            is_quiet = True
        finally:
            await self._close_files(is_quiet=is_quiet)

    async def _leave(self, membership: Membership) -> None:
        await membership.rest()
        if self._settings[node_settings.controlled_shutdown_enable] and self.failure is None:
            await membership.leave(LEAVE_SECONDS)

    async def _close_files(self, *, is_quiet: bool) -> None:
        """Close the controller and the logs. After an interrupted stop, threads may still write:
        then no clean shutdown marker is written."""
        if self._controller is not None:
            with suppress(KafkaError, OSError):
                await self._controller.aclose()
        if self._controller_sockets is not None:
            await self._controller_sockets.aclose(0.0)
        directories, metadata = self._directories, self._metadata_directory
        membership = self._membership
        epoch = NO_EPOCH if membership is None else membership.lifecycle.broker_epoch
        if directories is not None:
            if self._is_loaded and is_quiet:
                run = self._runtime.run_blocking
                await asyncio.gather(*map(run, directories.closings()))
                await run(directories.close, epoch)
            else:
                directories.release()
        if metadata is not None:
            metadata.release()
        await close_audit(self._authorizer)
        if self._is_loaded and is_quiet:
            self._log.info("broker is closed")


def _refuse_failed(directories: LogDirectories, places: Places) -> None:
    """Fail if the metadata log's directory, or every log directory, is out of service."""
    for each in directories.directories:
        if each.failure is not None and each.path == places.metadata:
            raise _failed(
                "the directory of the metadata log cannot be used", each.failure, each.path
            )
    if not directories.in_service():
        raise BrokerFailed("no log directory is in service", directories=places.logs)


def _refuse_unbuilt(settings: Settings) -> None:
    """Reject settings of features that are not built, before any disk is touched.
    `_check_stored` checks the stored settings."""
    missing = unbuilt(settings)
    if missing:
        raise ConfigError("; ".join(missing))


def _previous_epoch(directories: LogDirectories) -> int:
    """Return the broker epoch of the last clean shutdown from the directories, or -1 if they
    differ."""
    epochs = {each.broker_epoch for each in directories.directories}
    return epochs.pop() if len(epochs) == 1 else NO_BROKER_EPOCH


def _failed(what: str, error: Exception, directory: str | None = None) -> BrokerFailed:
    """Return the error for a required directory that is out of service, with advice."""
    where = {} if directory is None else {"directory": directory}
    return BrokerFailed(f"{what}: {advice(error)}", why=str(error), **where)


async def bind_listener(
    settings: Settings,
    sockets: SocketServer,
    listener: Listener,
    listeners: Listeners,
    served: tuple[Service, SecurityGround],
) -> int:
    """Bind the listener and return its port. `served` has the service behind it, and what its
    security stands on. Raise BrokerFailed if the operating system refuses, and ConfigError if the
    settings of its security are not whole."""
    service, ground = served
    options = await secured(listener_options(settings, listener, listeners), listener, ground)
    try:
        return await _bind(sockets, options, service)
    except OSError as error:
        raise BrokerFailed(
            "cannot listen",
            listener=listener.name,
            address=str(Address(listener.host, listener.port)),
            why=_reason(error),
        ) from error


async def _bind(sockets: SocketServer, options: ListenerOptions, service: Service) -> int:
    """Bind the listener and return its port. If `localhost` resolves to an IPv6 address that the
    machine does not have, bind the IPv4 address."""
    try:
        return (await sockets.listen(options, service)).port
    except OSError as error:
        if options.host != LOCAL or error.errno != EADDRNOTAVAIL:
            raise
    return (await sockets.listen(replace(options, host=LOCAL_IPV4), service)).port


def _reason(error: OSError) -> str:
    """Return the system's message, without the words that event loops add to it."""
    return _BIND_WORDS.sub("", error.strerror or str(error))
