"""The routes of the REST API. Each reads its request, calls one operation, and answers as Kafka
Connect does. Errors are `{"error_code", "message"}`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Scope

from moldau.connect.api import SourceConnector
from moldau.connect.config.connectors import SinkConfig, SourceConfig
from moldau.connect.config.infos import definitions
from moldau.connect.config.model import ConfigModel
from moldau.connect.herder.operations import Operations
from moldau.connect.herder.positions import Positions
from moldau.connect.herder.refusals import BadRequest, NotFound, NotLeader, Rebalancing, Refusal
from moldau.connect.herder.signing import ALGORITHM, SIGNATURE
from moldau.connect.installed.plugins import catalogue
from moldau.connect.plugins import PluginKind
from moldau.connect.rest.bodies import config_of, create_request, flag, named, parse
from moldau.connect.rest.forwarding import ForwardingClient
from moldau.connect.storage.keys import TargetState, dump
from moldau.connect.task.settings import listed
from moldau.errors import MoldauError

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]

RETRY_AFTER_S = "1"
ALLOWED_ORIGINS: Final = "access.control.allow.origin"
_ANSWERED_AT_ONCE = frozenset({"root", "health", "plugins", "plugin_config"})
"""The endpoints that need nothing of the internal topics."""


def answer(value: object, status: int = 200, **headers: str) -> Response:
    """Return a JSON response."""
    return Response(dump(value), status, headers=headers or None, media_type="application/json")


def empty(status: int = 204) -> Response:
    return Response(b"", status)


def refused(status: int, message: str, **headers: str) -> Response:
    """Return an error response."""
    return answer({"error_code": status, "message": message}, status, **headers)


def shared_model(connector: type) -> type[ConfigModel]:
    """Return the settings that every connector of this kind has."""
    return SourceConfig if issubclass(connector, SourceConnector) else SinkConfig


def _cross_origin(settings: Mapping[str, str]) -> list[Middleware]:
    origins = listed(settings, ALLOWED_ORIGINS)
    if not origins:
        return []
    methods = listed(settings, "access.control.allow.methods") or ["GET", "POST", "HEAD"]
    return [Middleware(CORSMiddleware, allow_origins=origins, allow_methods=methods)]


class Api:
    """The endpoints of one worker."""

    def __init__(
        self, operations: Operations, cluster_id: Callable[[], str], version: str,
        forwarding: ForwardingClient,
    ) -> None:  # fmt: skip
        self.operations = operations
        self.positions = Positions(operations)
        self.forwarding = forwarding
        self._cluster_id = cluster_id
        self._version = version

    def table(self) -> list[tuple[str, str, str]]:
        """Return path, method and name of each endpoint."""
        return [(path, method, run.__name__) for method, path, run in self._endpoints()]

    def routes(self) -> list[Route]:
        """Return the routes of Kafka Connect's API."""
        return [
            _RawRoute(path, self.guarded(run), methods=[method])
            for method, path, run in self._endpoints()
        ]

    def _endpoints(self) -> list[tuple[str, str, Endpoint]]:
        one = "/connectors/{name}"
        return [
            ("GET", "/", self.root),
            ("GET", "/health", self.health),
            ("GET", "/connectors", self.list_connectors),
            ("POST", "/connectors", self.create),
            ("GET", one, self.info),
            ("DELETE", one, self.delete),
            ("GET", f"{one}/config", self.config),
            ("PUT", f"{one}/config", self.put_config),
            ("PATCH", f"{one}/config", self.patch_config),
            ("GET", f"{one}/status", self.status),
            ("GET", f"{one}/tasks", self.tasks),
            ("POST", f"{one}/tasks", self.take_tasks),
            ("PUT", f"{one}/fence", self.fence),
            ("GET", one + "/tasks/{task}/status", self.task_status),
            ("POST", one + "/tasks/{task}/restart", self.restart_task),
            ("POST", f"{one}/restart", self.restart),
            ("PUT", f"{one}/pause", self.pause),
            ("PUT", f"{one}/resume", self.resume),
            ("PUT", f"{one}/stop", self.stop),
            ("GET", f"{one}/offsets", self.offsets),
            ("PATCH", f"{one}/offsets", self.alter_offsets),
            ("DELETE", f"{one}/offsets", self.reset_offsets),
            ("GET", f"{one}/topics", self.topics),
            ("PUT", f"{one}/topics/reset", self.reset_topics),
            ("GET", "/connector-plugins", self.plugins),
            ("GET", "/connector-plugins/{plugin}/config", self.plugin_config),
            ("PUT", "/connector-plugins/{plugin}/config/validate", self.validate),
        ]

    def guarded(self, run: Endpoint) -> Endpoint:
        """Wrap an endpoint: errors become responses, and requests for the leader are forwarded."""

        async def endpoint(request: Request) -> Response:
            herder = self.operations.herder
            if not herder.has_read and run.__name__ not in _ANSWERED_AT_ONCE:
                message = f"Worker is still starting up: {herder.stage}"
                return refused(503, message, **{"Retry-After": RETRY_AFTER_S})
            try:
                return await run(request)
            except NotLeader as error:
                return await self.forwarding.forward(request, error.leader_url)
            except Rebalancing as error:
                return refused(error.code, error.reason, **{"Retry-After": RETRY_AFTER_S})
            except Refusal as error:
                return refused(error.code, error.reason)
            except TimeoutError:
                stage = self.operations.herder.stage
                return refused(500, f"Request timed out. The worker is {stage}")
            except MoldauError as error:
                return refused(500, str(error))

        return endpoint

    # The worker

    async def root(self, request: Request) -> Response:
        return answer(
            {
                "version": self._version,
                "commit": "moldau",
                "kafka_cluster_id": self._cluster_id(),
            }
        )

    async def health(self, request: Request) -> Response:
        herder = self.operations.herder
        if herder.is_ready:
            message = "Worker has completed startup and is ready to handle requests."
            return answer({"status": "healthy", "message": message})
        message = f"Worker is still starting up: {herder.stage}"
        return answer({"status": "starting", "message": message}, 503)

    # Connectors

    async def list_connectors(self, request: Request) -> Response:
        names = self.operations.names()
        wanted = set(request.query_params.getlist("expand"))
        if not wanted:
            return answer(names)
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            entry: dict[str, Any] = {}
            try:
                if "status" in wanted:
                    entry["status"] = self.operations.status(name)
                if "info" in wanted:
                    entry["info"] = self.operations.info(name)
            except NotFound:
                continue  # it has no status yet, or is being deleted
            found[name] = entry
        return answer(found)

    async def create(self, request: Request) -> Response:
        name, config, target = create_request(parse(await request.body()))
        await self.operations.put_config(name, config, may_replace=False, target=target)
        where = f"/connectors/{quote(name, safe='')}"
        return answer(self.operations.info(name), 201, Location=where)

    async def info(self, request: Request) -> Response:
        return answer(self.operations.info(_name(request)))

    async def delete(self, request: Request) -> Response:
        await self.operations.delete(_name(request))
        return empty()

    async def config(self, request: Request) -> Response:
        return answer(self.operations.config(_name(request)))

    async def put_config(self, request: Request) -> Response:
        name = _name(request)
        config = named(name, config_of(parse(await request.body())))
        is_new = await self.operations.put_config(name, config, may_replace=True)
        info = self.operations.info(name)
        if not is_new:
            return answer(info)
        return answer(info, 201, Location=f"/connectors/{quote(name, safe='')}")

    async def patch_config(self, request: Request) -> Response:
        name = _name(request)
        changes = config_of(parse(await request.body()))
        if changes.get("name", name) != name:
            named(name, changes)
        await self.operations.patch_config(name, changes)
        return answer(self.operations.info(name))

    async def status(self, request: Request) -> Response:
        return answer(self.operations.status(_name(request)))

    async def tasks(self, request: Request) -> Response:
        return answer(self.operations.tasks(_name(request)))

    async def take_tasks(self, request: Request) -> Response:
        """Take task configs from the worker that runs the connector. Internal request."""
        body = await request.body()
        headers = request.headers
        self.operations.check_signature(body, headers.get(SIGNATURE), headers.get(ALGORITHM))
        configs = parse(body)
        if not isinstance(configs, list):
            raise BadRequest("the body must be a list of task configs")
        await self.operations.take_tasks(_name(request), [config_of(each) for each in configs])
        return empty()

    async def fence(self, request: Request) -> Response:
        """Fence the older tasks of a connector for the worker that starts one. Internal request."""
        body, headers = await request.body(), request.headers
        self.operations.check_signature(body, headers.get(SIGNATURE), headers.get(ALGORITHM))
        await self.operations.fence(_name(request))
        return empty()

    async def task_status(self, request: Request) -> Response:
        return answer(self.operations.task_status(_name(request), _task(request)))

    async def restart_task(self, request: Request) -> Response:
        await self.operations.restart_task(_name(request), _task(request))
        return empty()

    async def restart(self, request: Request) -> Response:
        include = flag(request.query_params.get("includeTasks"))
        failed = flag(request.query_params.get("onlyFailed"))
        name = _name(request)
        state = await self.operations.restart(name, include_tasks=include, only_failed=failed)
        return answer(state, 202) if include or failed else empty()

    async def pause(self, request: Request) -> Response:
        await self.operations.set_target(_name(request), TargetState.PAUSED)
        return empty(202)

    async def resume(self, request: Request) -> Response:
        await self.operations.set_target(_name(request), TargetState.STARTED)
        return empty(202)

    async def stop(self, request: Request) -> Response:
        await self.operations.set_target(_name(request), TargetState.STOPPED)
        return empty()

    # Offsets and topics

    async def offsets(self, request: Request) -> Response:
        return answer(await self.positions.get(_name(request)))

    async def alter_offsets(self, request: Request) -> Response:
        body = parse(await request.body())
        return answer({"message": await self.positions.alter(_name(request), body)})

    async def reset_offsets(self, request: Request) -> Response:
        return answer({"message": await self.positions.reset(_name(request))})

    async def topics(self, request: Request) -> Response:
        return answer(self.operations.topics(_name(request)))

    async def reset_topics(self, request: Request) -> Response:
        await self.operations.reset_topics(_name(request))
        return empty(202)

    # Plugins

    async def plugins(self, request: Request) -> Response:
        only = request.query_params.get("connectorsOnly", "true").strip().lower() != "false"
        kinds = [PluginKind.CONNECTOR] if only else list(PluginKind)
        found = [
            {"class": each.name, "type": each.type, "version": each.version}
            for kind in kinds
            if kind is not PluginKind.CONFIG_PROVIDER
            for each in catalogue().all(kind)
        ]
        return answer(found)

    async def plugin_config(self, request: Request) -> Response:
        name = request.path_params["plugin"]
        for kind in PluginKind:
            for each in catalogue().all(kind):
                if name in each.names():
                    found = definitions(each.cls.config_model)
                    if kind is PluginKind.CONNECTOR:
                        own = {setting["name"] for setting in found}
                        shared = definitions(shared_model(each.cls))
                        found += [setting for setting in shared if setting["name"] not in own]
                    return answer(found)
        raise NotFound(f"Unknown plugin {name}: GET /connector-plugins?connectorsOnly=false lists "
                       "those that are installed")  # fmt: skip

    async def validate(self, request: Request) -> Response:
        config = config_of(parse(await request.body()))
        plugin = request.path_params["plugin"]
        given = config.get("connector.class")
        if given is None:
            config["connector.class"] = plugin
        elif self.operations.type_of_plugin(plugin) is not self.operations.type_of_plugin(given):
            raise BadRequest(
                f"Included connector type {given} does not match request type {plugin}"
            )
        is_offline = request.query_params.get("dry_run") == "offline"
        infos = await self.operations.validate(config, is_offline=is_offline)
        return answer(infos.to_json())


class _RawRoute(Route):
    """A route whose path parameters may contain a slash, sent as `%2F`."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        raw: bytes = scope.get("raw_path") or b""
        if b"%2f" not in raw.lower():
            return super().matches(scope)
        match, found = super().matches({**scope, "path": raw.decode("ascii", "replace")})
        if match is not Match.NONE:
            parameters = found["path_params"]
            found["path_params"] = {key: unquote(text) for key, text in parameters.items()}
        return match, found


def _name(request: Request) -> str:
    name: str = request.path_params["name"]
    return name


def _task(request: Request) -> int:
    text: str = request.path_params["task"]
    if not text.isdecimal():
        raise NotFound(f"a task has a number, not {text}")
    return int(text)


def make_application(routes: list[Route], settings: Mapping[str, str]) -> Starlette:
    """Return the application: errors have Kafka Connect's form, `access.control.*` sets CORS."""

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return refused(error.status_code, f"HTTP {error.status_code} {error.detail}")

    async def on_bug(request: Request, error: Exception) -> Response:
        return refused(500, f"internal error: {type(error).__name__}: {error}")

    return Starlette(
        routes=routes,
        middleware=_cross_origin(settings),
        exception_handlers={HTTPException: on_http, Exception: on_bug},
    )
