"""A Connect worker that answers as Apache Kafka's: with the values of all settings, of a connector
with a PIN that is a secret by its type alone."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from moldau.runtime import Runtime
from moldau.runtime.http_door import JSON, DoorRules
from moldau.runtime.http_server import HttpServer

NAME: Final = "pins"
SINK: Final = "com.example.PinSink"
QUERY: Final = "select a\nfrom b"
CONFIG: Final = {
    "name": NAME,
    "connector.class": SINK,
    "topics": "orders",
    "pin": "4711",
    "query": QUERY,
    "transforms": "seal",
    "transforms.seal.type": "com.example.Seal",
    "transforms.seal.salt": "4712",
    "value.converter": "com.example.Converter",
    "value.converter.basic": "4713",
    "batch": "7",
}
DEFINED: Final = {
    SINK: {"pin": "PASSWORD", "batch": "INT", "query": "STRING"},
    "com.example.Seal": {"salt": "PASSWORD"},
    "com.example.Converter": {"basic": "PASSWORD"},
}


def definitions(plugin: str, prefix: str = "") -> list[dict[str, Any]]:
    """What the worker says of a plugin's settings."""
    return [
        {"name": prefix + name, "type": kind, "required": False}
        for name, kind in DEFINED[plugin].items()
    ]


class ApacheStub:
    """Its answers. `status` is that of questions about plugins; 200 answers them."""

    def __init__(self) -> None:
        self.status = 200
        self.settings: dict[str, str] = dict(CONFIG)
        self.patches: list[object] = []
        self.checks: list[dict[str, str]] = []

    async def info(self, request: Request) -> JSONResponse:
        return JSONResponse({"name": NAME, "config": self.settings, "tasks": [], "type": "sink"})

    async def state(self, request: Request) -> JSONResponse:
        own = {"state": "RUNNING", "worker_id": "w:1"}
        return JSONResponse({"name": NAME, "connector": own, "tasks": [], "type": "sink"})

    async def config(self, request: Request) -> JSONResponse:
        if request.method == "PATCH":
            self.patches.append(json.loads(await request.body()))
        return JSONResponse(self.settings)

    async def topics(self, request: Request) -> JSONResponse:
        return JSONResponse({NAME: {"topics": ["orders"]}})

    async def plugin(self, request: Request) -> JSONResponse:
        found = definitions(request.path_params["plugin"])
        return JSONResponse(found if self.status == 200 else {"message": "no"}, self.status)

    async def validate(self, request: Request) -> JSONResponse:
        given = json.loads(await request.body())
        self.checks.append(given)
        found = definitions(SINK) + definitions("com.example.Seal", "transforms.seal.")
        configs = [
            {"definition": each, "value": {**each, "value": given.get(each["name"]), "errors": []}}
            for each in found
        ]
        return JSONResponse({"name": SINK, "error_count": 0, "groups": [], "configs": configs})


@asynccontextmanager
async def apache_stub(runtime: Runtime) -> AsyncIterator[tuple[str, ApacheStub]]:
    """Yield its address, and what it answers."""
    stub, server = ApacheStub(), HttpServer(runtime, "the stub", "choose another address")
    one, plugin = f"/connectors/{NAME}", "/connector-plugins/{plugin}/config"
    routes = [
        Route(one, stub.info),
        Route(f"{one}/status", stub.state),
        Route(f"{one}/topics", stub.topics),
        Route(f"{one}/config", stub.config, methods=["GET", "PATCH"]),
        Route(plugin, stub.plugin),
        Route(f"{plugin}/validate", stub.validate, methods=["PUT"]),
    ]
    host, port = server.bind("127.0.0.1", 0)
    await server.start(Starlette(routes=routes), DoorRules((JSON,)))
    try:
        yield f"http://{host}:{port}", stub
    finally:
        await server.aclose()
