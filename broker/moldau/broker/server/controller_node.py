"""A controller-only node: it votes, keeps the metadata and decides, and has no partitions.

Start: take the directories -> open the metadata log -> bind the controller listeners -> take part
in the quorum -> wait until the committed metadata is known. Then, about once a second, the
controller does its periodic work, and this controller registers if the cluster does not know it
(KIP-919).

Invariant: after a failed start, and after `aclose`, no directory is locked, no port is bound, and
no task is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.broker.api.describe_configs import ConfigView
from moldau.broker.controller.levels import SUPPORTED
from moldau.broker.log.directory import LogDirectory
from moldau.broker.log.meta_properties import check_meta_properties
from moldau.broker.log.open_files import connections_max
from moldau.broker.network import NetworkMetrics, SocketServer
from moldau.broker.server.authorization import (
    audit_maker,
    authorizer_of,
    close_audit,
    note_ready,
    warn_of_dry_run,
)
from moldau.broker.server.broker import LOGGER, Address, bind_listener
from moldau.broker.server.channel import Audience, LocalController
from moldau.broker.server.controller_config import controller_config_of
from moldau.broker.server.controller_service import ControllerService
from moldau.broker.server.lifecycle import Identity, Lifecycle
from moldau.broker.server.membership import ControllerRegistration
from moldau.broker.server.options import network_options
from moldau.broker.server.publishing import Publisher, with_dynamic
from moldau.broker.server.security import SecurityGround
from moldau.broker.server.storage import cluster_of, places_of
from moldau.broker.server.waiting import until_first
from moldau.broker.settings import node as node_settings
from moldau.broker.settings import read_listeners, unbuilt
from moldau.errors import ConfigError
from moldau.errors.codes import KafkaError
from moldau.ids import new_uuid
from moldau.logging import Loggers
from moldau.metrics import Registry
from moldau.protocol.versions import Versions

if TYPE_CHECKING:
    from moldau.broker.controller.image import Image
    from moldau.broker.decision.authorizer import Authorizer
    from moldau.config import Settings
    from moldau.runtime import Runtime

TICK_SECONDS: Final = 1.0


class ControllerNode:
    """A node with only the controller role; see the module. `start` makes it."""

    def __init__(
        self, runtime: Runtime, settings: Settings, registry: Registry, loggers: Loggers
    ) -> None:
        self.endpoints: Mapping[str, Address] = {}
        """The addresses for other controllers and brokers, by listener name."""
        self.failure: Exception | None = None
        """The reason why the node cannot continue; None while it runs."""
        self._runtime = runtime
        self._settings = settings
        self.node_id = settings[node_settings.node_id]
        self._loggers = loggers
        self._log = loggers.get(f"{LOGGER}.controller").bind(node=self.node_id)
        self.registry = registry
        self.network_metrics = NetworkMetrics(registry)
        self._publisher = Publisher(settings, lambda settings: None, lambda image: None)
        self._ended = asyncio.Event()
        self._is_closed = False
        # Made in this order, and closed in the reverse order.
        self._directories: list[LogDirectory] = []
        self._controller: LocalController | None = None
        self._sockets: SocketServer | None = None
        self._lifecycle: Lifecycle | None = None
        self._authorizer: Authorizer | None = None
        self._living: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        runtime: Runtime,
        settings: Settings,
        *,
        registry: Registry | None = None,
        loggers: Loggers | None = None,
        host_name: str | None = None,
    ) -> ControllerNode:
        """Start a controller that takes part in the quorum. Raise the errors of `Broker.start`."""
        lines = loggers or Loggers(runtime.clock, lambda line: None)
        node = cls(runtime, settings, registry or Registry(), lines)
        async with AsyncExitStack() as on_failure:
            on_failure.push_async_callback(node.aclose)
            await node._start(host_name or runtime.node)
            on_failure.pop_all()
        return node

    @property
    def image(self) -> Image:
        """The committed metadata that this node has published."""
        return self._publisher.image

    @property
    def published(self) -> int:
        """The offset after the last record of the image."""
        return self._publisher.metadata_offset

    @property
    def controller(self) -> LocalController:
        """This node's part in the quorum."""
        assert self._controller is not None, "not started"
        return self._controller

    async def wait(self) -> None:
        """Wait until the node cannot continue, and raise the reason."""
        await self._ended.wait()
        assert self.failure is not None
        raise self.failure

    # Start.

    async def _start(self, host_name: str) -> None:
        missing = unbuilt(self._settings)
        if missing:
            raise ConfigError("; ".join(missing))
        log = self._loggers.get(f"{LOGGER}.security")
        self._authorizer = authorizer = authorizer_of(
            self._settings, lambda: self._publisher.image, audit_maker(self._runtime, log)
        )
        warn_of_dry_run(self._settings, log)
        cluster_id = cluster_of(self._runtime.files, self._settings)
        self._take_directories(cluster_id)
        metadata = places_of(self._settings).metadata
        publisher = self._publisher
        self._controller = controller = LocalController(
            self._runtime,
            controller_config_of(self._settings, cluster_id, metadata),
            Audience(
                publisher.on_image,
                publisher.on_records,
                lambda: self._log.info("the controller is back"),
                self._end,
                lambda: publisher.image,
            ),
            self._log,
        )
        controller.authorizer = authorizer
        controller.open()
        await self._listen(controller, host_name)
        controller.live()
        await self._caught_up(controller)
        note_ready(authorizer)
        self._lifecycle = Lifecycle(self._identity(cluster_id, host_name))
        self._living = self._runtime.spawn(self._live(), name="controller-life")
        self._log.info("controller is up", cluster=cluster_id)

    def _take_directories(self, cluster_id: str) -> None:
        for path in places_of(self._settings).all:
            directory = LogDirectory.open(self._runtime.files, path)
            self._directories.append(directory)
            if directory.meta is None:
                raise ConfigError("the directory is not formatted", directory=path)
            check_meta_properties(directory.meta, cluster_id, self.node_id, path)

    async def _listen(self, controller: LocalController, host_name: str) -> None:
        settings = self._settings
        listeners = read_listeners(settings)
        log = self._loggers.get(f"{LOGGER}.network").bind(node=self.node_id)
        options = network_options(settings, {})
        self._sockets = sockets = SocketServer(
            self._runtime, options, self.network_metrics, log, room=self._connections_max
        )
        features = {name: Versions(*levels) for name, levels in SUPPORTED.items()}
        service = ControllerService(
            controller, features, lambda: self.image, self._config_view, self._log
        )
        ground = SecurityGround.of(
            self._runtime,
            lambda: settings,
            lambda: self.image.credentials,
            log,
        )
        bound = {
            each.name: await bind_listener(settings, sockets, each, listeners, (service, ground))
            for each in listeners.of_controller
        }
        self.endpoints = {
            each.name: Address(each.host or host_name, each.port or bound[each.name])
            for each in listeners.advertised_controller
        }

    def _connections_max(self) -> int | None:
        """Return the number of connections that this process may have beside the files of its log;
        None if files are not limited."""
        limit = self._runtime.files.open_files_max()
        return None if limit is None else connections_max(limit)

    def _config_view(self) -> ConfigView:
        node_id, image = self.node_id, self.image
        settings = with_dynamic(self._settings, image, node_id)
        return ConfigView(image, settings, node_id, self._loggers)

    async def _caught_up(self, controller: LocalController) -> None:
        """Wait until this node knows the cluster's metadata, which needs a majority of voters."""
        await until_first(self._runtime, metadata=controller.caught_up(), ended=self._ended.wait())
        if self.failure is not None:
            raise self.failure

    def _identity(self, cluster_id: str, host_name: str) -> Identity:
        listeners = read_listeners(self._settings)
        return Identity(
            node_id=self.node_id,
            cluster_id=cluster_id,
            incarnation_id=new_uuid(self._runtime.random),
            rack=None,
            endpoints=(),
            controller_endpoints=tuple(
                replace(each, host=self.endpoints[each.name].host or host_name)
                for each in listeners.advertised_controller
            ),
            features=SUPPORTED,
            directory_ids=(),
        )

    # Running.

    async def _live(self) -> None:
        assert self._lifecycle is not None
        registration = ControllerRegistration(self.controller, self._lifecycle)
        while True:
            registration.renew(self.image)
            await asyncio.sleep(TICK_SECONDS)
            self.controller.tick()

    def _end(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
            self._log.failure("the controller stops", error)
            self._ended.set()

    async def aclose(self) -> None:
        """Stop everything, in order. Does nothing when called again."""
        if self._is_closed:
            return
        self._is_closed = True
        living, self._living = self._living, None
        if living is not None:
            living.cancel()
            await asyncio.wait([living])
        try:
            if self._controller is not None:
                with suppress(KafkaError, OSError):
                    await self._controller.aclose()
            if self._sockets is not None:
                await self._sockets.aclose(0.0)
            await close_audit(self._authorizer)
        finally:
            for directory in self._directories:
                directory.release()
        if self._lifecycle is not None:
            self._log.info("controller is closed")
