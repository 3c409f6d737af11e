"""A whole worker: stores, membership, herder and REST API, created and closed in order.

Standalone: configs and statuses are in memory, offsets in a file of the state directory, or with
exactly-once sources in a topic.
Distributed: all three are in compacted topics. The code above these stores is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Final

from starlette.routing import Route

from moldau.client import Admin
from moldau.connect.config.exactly_once import is_exactly_once
from moldau.connect.herder.group import GroupMembership
from moldau.connect.herder.herder import Herder
from moldau.connect.herder.membership import Alone, Membership
from moldau.connect.herder.operations import Operations
from moldau.connect.installed.converters import check_converters
from moldau.connect.rest.application import ALLOWED_ORIGINS, Api, make_application
from moldau.connect.rest.exposition import read_metrics
from moldau.connect.rest.forwarding import ForwardingClient
from moldau.connect.rest.levels import Levels
from moldau.connect.rest.openapi import document_route
from moldau.connect.rest.overview import PROBES, Overview
from moldau.connect.rest.protection import client_verification, is_signed, rest_protection
from moldau.connect.storage.file import FileLog
from moldau.connect.storage.log import KeyedLog, MemoryLog
from moldau.connect.storage.standalone import (
    OFFSETS_FILE,
    TOPIC_SETTING,
    CountedConfigs,
    MovedOffsets,
    offsets_topic,
)
from moldau.connect.storage.stores import ConfigStore, OffsetStore, StatusStore
from moldau.connect.storage.topic_log import TopicLog
from moldau.connect.task.settings import client_settings, listed
from moldau.connect.worker.settings import (
    DISTRIBUTED,
    complete,
    internal_topics,
    offset_topic,
    unknown_settings,
)
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.folds.topic import FoldTopic
from moldau.link.http.protection import HttpProtection, open_to_all
from moldau.link.telemetry.metrics import SETTING, metrics_push, metrics_target
from moldau.link.telemetry.otlp import OtlpPush
from moldau.logging import Loggers
from moldau.metrics import Metric
from moldau.plugins.layers import platform_version
from moldau.runtime import Runtime
from moldau.runtime.children import process_environment
from moldau.runtime.http_door import JSON, DoorRules
from moldau.runtime.http_server import HttpServer

ID_FILE: Final = "worker-id"
PORT_MAX: Final = 65_535
_REST: Final = ("the REST API", "choose another --listen")
STANDALONE_ID: Final = "standalone"
PUSHED_AS: Final = "moldau-connect"


@dataclass(frozen=True, slots=True)
class WorkerLocation:
    """The listen address and the state directory. No `listen`: no REST API. No `state`: topics."""

    listen: tuple[str, int] | None = None
    state: str | None = None


def _admin_address(text: str) -> tuple[str, int]:
    first = text.split(",")[0].strip()
    host, _, port = first.lower().partition("://")[2].rpartition(":")
    if not port.isdecimal() or int(port) > PORT_MAX:
        raise ConfigError(
            "must be http://HOST:PORT or https://", setting="admin.listeners", value=first
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def _needs_no_login(method: str, path: str) -> bool:
    return is_signed(method, path) or path in PROBES


class ConnectWorker:
    """A worker: call `start`, then `aclose`."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Mapping[str, str],
        location: WorkerLocation,
        loggers: Loggers,
    ) -> None:
        self.is_distributed = location.state is None
        self.settings = complete(settings, is_distributed=self.is_distributed)
        check_converters(self.settings)
        log = loggers.get("moldau.connect.worker")
        for problem in unknown_settings(settings):
            log.warn(problem.text)
        self._runtime = runtime
        self._location = location
        self._loggers = loggers
        self.protection = rest_protection(self.settings, runtime.clock)
        self._admin_protection = rest_protection(self.settings, runtime.clock, "admin.listeners")
        otlp = self.settings.get(SETTING, "").strip() or None
        self._otlp = metrics_target(otlp, process_environment())
        self._push: OtlpPush | None = None
        self._rest: HttpServer | None = None
        self._cluster_id = ""
        self._admin_rest: HttpServer | None = None
        self.address: tuple[str, int] | None = None
        self.admin_address: tuple[str, int] | None = None
        self.herder: Herder
        self.operations: Operations

    async def start(self) -> None:
        """Start the worker. On return it accepts requests. Raise MoldauError if it cannot start."""
        await self._find_cluster()
        if self._location.listen is not None:
            self._rest = HttpServer(self._runtime, *_REST)
            self.address = self._rest.bind(*self._location.listen)
            self._warn_of_open(self.address)
        if self._location.state is not None:
            self.settings["group.id"] = self._standalone_id(self._location.state)
        worker_id = self._advertised()
        stores = self._stores()
        membership = self._membership(worker_id, stores[0])
        self.herder = Herder(
            self._runtime, self.settings, stores, membership, self._loggers, worker_id
        )
        if isinstance(membership, GroupMembership):
            membership.on_change = self.herder.wake
            membership.stops = self.herder.stopped
        self.operations = Operations(self.herder, self.protection.scheme)
        try:
            await self._serve()
            await self.herder.start()
            self._start_push()
        except BaseException:
            await self.aclose()
            raise

    def _start_push(self) -> None:
        """Push the metrics of this worker, if that is asked for."""
        if self._otlp is None:
            return

        async def read() -> Sequence[Metric]:
            return read_metrics(self.operations)

        # Standalone workers of several machines may have the same address.
        is_alone = self._location.state is not None
        own = self.settings["group.id"] if is_alone else self.herder.worker_id
        resource = {"service.name": PUSHED_AS, "service.instance.id": own}
        self._push = metrics_push(self._runtime, self._otlp, resource, read)
        self._push.start()

    def _warn_of_open(self, address: tuple[str, int]) -> None:
        if open_to_all(self.protection, address[0]):
            self._loggers.get("moldau.connect.worker").warn(
                "every client that reaches this machine can change connectors: there is no login "
                "(docs/security.md)",
                address=f"{address[0]}:{address[1]}",
            )

    async def _serve(self) -> None:
        if self._rest is None:
            return
        version = platform_version()
        forwarding = ForwardingClient(
            self._runtime, self.protection.scheme, client_verification(self.settings)
        )
        self.herder.send_tasks = forwarding.send_tasks
        self.herder.fencing.ask_leader = forwarding.fence
        api = Api(self.operations, lambda: self._cluster_id, version, forwarding)
        routes = [
            *api.routes(),
            document_route(api, version),
            *Overview(self.operations, forwarding).routes(),
        ]
        await self._serve_admin(Levels(api), routes)
        application = make_application(routes, self.settings)
        guarded = self.protection.guard(application, _needs_no_login)
        await self._rest.start(guarded, self._door(self.protection), self.protection.context)

    async def _serve_admin(self, levels: Levels, routes: list[Route]) -> None:
        """Serve /admin on the address in `admin.listeners`; an empty setting turns /admin off."""
        text = self.settings.get("admin.listeners")
        if text is None:
            routes += levels.routes()
        elif text.strip():
            self._admin_rest = HttpServer(self._runtime, *_REST)
            self.admin_address = self._admin_rest.bind(*_admin_address(text))
            application = make_application(levels.routes(), self.settings)
            by = self._admin_protection
            await self._admin_rest.start(by.guard(application), self._door(by), by.context)

    def _door(self, by: HttpProtection) -> DoorRules:
        advertised = self.settings.get("rest.advertised.host.name")
        rules = by.rules((JSON,), () if advertised is None else (advertised,))
        return replace(rules, origins=listed(self.settings, ALLOWED_ORIGINS))

    async def _find_cluster(self) -> None:
        settings = client_settings(self.settings, "admin.")
        async with Admin(settings, runtime=self._runtime) as admin:
            self._cluster_id = (await admin.describe_cluster()).cluster_id or ""

    def _advertised(self) -> str:
        """Return this worker's name in the group: the host and port of its REST API."""
        if self.address is None:
            return STANDALONE_ID
        host = self.settings.get("rest.advertised.host.name") or self.address[0]
        port = self.settings.get("rest.advertised.port") or str(self.address[1])
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _membership(self, worker_id: str, configs: ConfigStore) -> Membership:
        if not self.is_distributed:
            return Alone()
        log = self._loggers.get("moldau.connect.group")
        url = f"{self.protection.scheme}://{worker_id}/"
        return GroupMembership(self._runtime, self.settings, url, configs, log)

    def _standalone_id(self, state: str) -> str:
        """Return an id that is stored in the state directory. Instance ids of tasks contain it."""
        path = f"{state.rstrip('/')}/{ID_FILE}"
        files = self._runtime.files
        files.make_dirs(state)
        if not files.exists(path):
            files.write_text_atomic(path, f"{self._runtime.random.randbytes(8).hex()}\n")
        return f"{STANDALONE_ID}-{files.read_text(path).strip()}"

    def _stores(self) -> tuple[ConfigStore, StatusStore, OffsetStore]:
        if self._location.state is not None:
            return self._standalone_stores(self._location.state.rstrip("/"))
        topics = internal_topics(self.settings)
        return (
            ConfigStore(self._topic(topics.config, topics.leader_id)),
            StatusStore(self._topic(topics.status)),
            OffsetStore(self._topic(topics.offset)),
        )

    def _standalone_stores(self, state: str) -> tuple[ConfigStore, StatusStore, OffsetStore]:
        is_exact = is_exactly_once(self.settings)
        topic = offsets_topic(self._runtime, state, self.settings, is_exactly_once=is_exact)
        offsets: KeyedLog = FileLog(self._runtime, f"{state}/{OFFSETS_FILE}")
        if topic is not None:
            self.settings[TOPIC_SETTING] = topic
            spec = replace(offset_topic({**DISTRIBUTED, **self.settings}), has_transactions=True)
            offsets = MovedOffsets(self._runtime, state, self._topic(spec))
        configs = CountedConfigs(self._runtime, state) if is_exact else MemoryLog()
        return ConfigStore(configs), StatusStore(MemoryLog()), OffsetStore(offsets)

    def _topic(self, topic: FoldTopic, leader_id: str | None = None) -> TopicLog:
        log = self._loggers.get("moldau.connect.storage").bind(topic=topic.name)
        return TopicLog(self._runtime, client_settings(self.settings), topic, log, leader_id)

    async def aclose(self) -> None:
        """Stop the REST API, then the tasks. On return offsets are stored and the port is free."""
        async with AsyncExitStack() as left:
            if hasattr(self, "herder"):
                left.push_async_callback(self.herder.aclose)
            for rest in (self._admin_rest, self._rest):
                if rest is not None:
                    left.push_async_callback(rest.aclose)
            if self._push is not None:
                left.push_async_callback(self._push.finish)
