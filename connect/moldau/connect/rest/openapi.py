"""The OpenAPI document of the REST API, made from its routes."""

from __future__ import annotations

import re
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.connect.rest.application import Api
from moldau.connect.storage.keys import dump

PATH: Final = "/openapi.json"
_PARAMETER: Final = re.compile(r"{(\w+)}")

_QUERIES: Final = {
    ("GET", "/connectors"): ("expand",),
    ("POST", "/connectors/{name}/restart"): ("includeTasks", "onlyFailed"),
    ("GET", "/connector-plugins"): ("connectorsOnly",),
    ("PUT", "/connector-plugins/{plugin}/config/validate"): ("dry_run",),
}
_SUMMARIES: Final = {
    "root": "The worker's version and its Kafka cluster",
    "health": "Whether the worker is ready (KIP-1017)",
    "list_connectors": "The names of all connectors; with expand, their status and info",
    "create": "Create a connector",
    "info": "A connector's config and tasks",
    "delete": "Delete a connector",
    "config": "A connector's config, without secrets",
    "put_config": "Create a connector or change its config",
    "patch_config": "Change some settings of a connector; null removes one (KIP-477)",
    "status": "The state of a connector and its tasks",
    "take_tasks": "Internal: a worker gives the leader task configs, signed (KIP-507)",
    "fence": "Internal: a worker has the leader fence older tasks, signed (KIP-618)",
    "tasks": "The configs of a connector's tasks",
    "task_status": "The state of one task",
    "restart_task": "Restart one task",
    "restart": "Restart a connector, and its tasks if asked for (KIP-745)",
    "pause": "Pause a connector and its tasks",
    "resume": "Resume a paused or stopped connector",
    "stop": "Stop a connector and end its tasks (KIP-875)",
    "offsets": "The stored offsets of a connector",
    "alter_offsets": "Change stored offsets of a stopped connector",
    "reset_offsets": "Forget the stored offsets of a stopped connector",
    "topics": "The topics that a connector has used",
    "reset_topics": "Forget the topics that a connector has used",
    "plugins": "The plugins that are installed",
    "plugin_config": "The settings of a plugin",
    "validate": "Check a connector config",
}
_HAS_BODY: Final = frozenset({"create", "put_config", "patch_config", "alter_offsets", "validate"})


def summary(name: str) -> str:
    """Return what an endpoint does, in a line."""
    return _SUMMARIES[name]


def document(api: Api, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document."""
    paths: dict[str, dict[str, Any]] = {}
    for path, method, name in api.table():
        paths.setdefault(path, {})[method.lower()] = _operation(method, path, name)
    error = {
        "type": "object",
        "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
        "required": ["error_code", "message"],
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "moldau Connect", "version": version},
        "paths": paths,
        "components": {"schemas": {"Error": error}},
    }


def _operation(method: str, path: str, name: str) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": each, "in": "path", "required": True, "schema": {"type": "string"}}
        for each in _PARAMETER.findall(path)
    ]
    parameters += [
        {"name": each, "in": "query", "required": False, "schema": {"type": "string"}}
        for each in _QUERIES.get((method, path), ())
    ]
    failed = {"$ref": "#/components/schemas/Error"}
    found: dict[str, Any] = {
        "operationId": name,
        "summary": summary(name),
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "It is done"},
            "default": {
                "description": "It is refused",
                "content": {"application/json": {"schema": failed}},
            },
        },
    }
    if name in _HAS_BODY:
        content = {"application/json": {"schema": {"type": "object"}}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def document_route(api: Api, version: str) -> Route:
    """Return the route of `GET /openapi.json`."""
    text = dump(document(api, version))

    async def endpoint(request: Request) -> Response:
        return Response(text, media_type="application/json")

    return Route(PATH, endpoint, methods=["GET"])
