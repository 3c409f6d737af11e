"""`/admin/loggers`: read and change the log levels of a running worker (KIP-495, KIP-976).

A level applies to a logger and all beneath it. With `scope=cluster` it is written to the config
topic, for every worker.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.connect.herder.herder import set_level
from moldau.connect.herder.refusals import BadRequest, NotFound
from moldau.connect.rest.application import Api, answer, empty
from moldau.connect.rest.bodies import parse
from moldau.errors import MoldauError
from moldau.logging import Level, parse_level
from moldau.logging.level import ROOT


class Levels:
    """The loggers of one worker."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._herder = api.operations.herder
        self._modified: dict[str, int] = {}

    def routes(self) -> list[Route]:
        one = "/admin/loggers/{logger}"
        return [
            Route("/admin/loggers", self._api.guarded(self.all), methods=["GET"]),
            Route(one, self._api.guarded(self.get), methods=["GET"]),
            Route(one, self._api.guarded(self.put), methods=["PUT"]),
        ]

    async def all(self, request: Request) -> Response:
        levels = self._herder.loggers.levels()
        return answer({name: self._entry(name, level) for name, level in levels.items()})

    async def get(self, request: Request) -> Response:
        name = _name(request)
        levels = self._herder.loggers.levels()
        if name not in levels:
            raise NotFound(f"Logger {name} not found.")
        return answer(self._entry(name, levels[name]))

    async def put(self, request: Request) -> Response:
        name, body = _name(request), parse(await request.body())
        text = body.get("level") if isinstance(body, dict) else None
        if not isinstance(text, str):
            raise BadRequest("Desired 'level' parameter was not specified in request.")
        try:
            level = parse_level(text)
        except MoldauError:
            raise NotFound(f"invalid log level '{text}'.") from None
        scope = request.query_params.get("scope", "worker").lower()
        if scope == "cluster":
            await self._herder.configs.put_level(name, level.name)
            return empty()
        if scope != "worker":
            raise BadRequest(f"'scope' must be worker or cluster, not {scope}")
        set_level(self._herder.loggers, name, level)
        levels = self._herder.loggers.levels()
        beneath = [each for each in levels if each == name or each.startswith(f"{name}.")
                   or name == ROOT]  # fmt: skip
        now_ms = self._herder.runtime.clock.wall_ms()
        self._modified.update(dict.fromkeys(beneath, now_ms))
        return answer(sorted(each for each in beneath))

    def _entry(self, name: str, level: Level) -> dict[str, Any]:
        return {"level": level.name, "last_modified": self._modified.get(name)}


def _name(request: Request) -> str:
    name: str = request.path_params["logger"]
    return name
