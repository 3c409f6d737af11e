"""Connectors of a Connect worker: their state, tasks and settings; pause, resume, restart."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from moldau.config.hiding import HIDDEN
from moldau.console.apis.connect import ConnectApi, ConnectRefused
from moldau.console.connection import Connection
from moldau.console.pages.paging import paged
from moldau.console.pages.rendering import BadForm, Renderer, form_of, see
from moldau.console.pages.secret_settings import GROUP, QUEUE, SecretSettings
from moldau.deferred import dataclass
from moldau.operations.connectors import (
    PAUSE,
    RESUME,
    connector_path,
    restart,
    restart_task,
    without_secret,
)

NO_CONNECT: Final = (
    "Start the console with --connect URL to see the connectors of a worker; inside a broker that "
    "is moldau.console.connect=URL."
)
ACTIONS: Final = {
    "pause": PAUSE,
    "resume": RESUME,
    "restart": restart(),
}


@dataclass(frozen=True, slots=True)
class Task:
    """A task of a connector; `trace` is why it failed."""

    number: int
    state: str
    worker: str
    trace: str


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector as its worker describes it."""

    name: str
    kind: str
    state: str
    worker: str
    trace: str
    tasks: list[Task]
    settings: dict[str, str]

    @property
    def topics(self) -> list[str]:
        """The topics that the settings of a sink name."""
        named = self.settings.get("topics", "") if self.kind == "sink" else ""
        return [each.strip() for each in named.split(",") if each.strip()]

    @property
    def dead_letters(self) -> str:
        """The topic of a sink's dead letters; empty if it has none."""
        return self.settings.get(QUEUE, "").strip() if self.kind == "sink" else ""

    @property
    def group(self) -> str:
        """The group with a sink's offsets; empty for a source."""
        named = self.settings.get(GROUP, "")
        return "" if self.kind != "sink" else named or f"connect-{self.name}"

    @property
    def running(self) -> int:
        """How many tasks run."""
        return sum(each.state == "RUNNING" for each in self.tasks)

    @property
    def failed(self) -> int:
        """How many tasks have failed."""
        return sum(each.state == "FAILED" for each in self.tasks)

    @classmethod
    def of(
        cls,
        name: str,
        info: Mapping[str, Any],
        status: Mapping[str, Any],
        secrets: Collection[str] = (),
    ) -> Connector:
        """Read the worker's answers. The settings in `secrets` are hidden, whatever their names."""
        own = status.get("connector", {})
        tasks = [
            Task(
                each["id"],
                each["state"],
                each.get("worker_id", ""),
                without_secret("", str(each.get("trace") or "")),
            )
            for each in status.get("tasks", ())
        ]
        return cls(
            name,
            str(status.get("type") or info.get("type") or ""),
            str(own.get("state", "UNASSIGNED")),
            str(own.get("worker_id", "")),
            without_secret("", str(own.get("trace") or "")),
            sorted(tasks, key=lambda each: each.number),
            {
                key: HIDDEN if key in secrets and value else without_secret(key, str(value))
                for key, value in sorted(info["config"].items())
            },
        )


def connect_of(connection: Connection) -> ConnectApi:
    """Return the API of the worker. Raise BadForm if the console was given none."""
    if connection.connect is None:
        raise BadForm(NO_CONNECT)
    return connection.connect


class Connectors:
    """The endpoints about connectors."""

    def __init__(self, connection: Connection, renderer: Renderer) -> None:
        self._connection = connection
        self._renderer = renderer
        self._secrets = SecretSettings()

    def _api(self) -> ConnectApi:
        return connect_of(self._connection)

    async def list(self, request: Request) -> Response:
        """A page of the connectors whose names contain a text."""
        if self._connection.connect is None:
            return self._renderer.absent(request, "Connectors", NO_CONNECT)
        text = request.query_params.get("q", "").strip()
        # `expand` is given twice, as the API wants it
        answers = await self._api().ask("GET", "/connectors?expand=status&expand=info")
        found = [
            Connector.of(name, each["info"], each["status"])
            for name, each in sorted(answers.items())
            if text.lower() in name.lower()
        ]
        part = paged(found, request.query_params.get("page"))
        return self._renderer.page(request, "connectors.html", part=part, text=text)

    async def connector(self, request: Request) -> Response:
        """State, tasks and settings of one connector."""
        name, api = request.path_params["name"], self._api()
        info = await api.ask("GET", connector_path(name))
        status = await api.ask("GET", connector_path(name, "/status"))
        secrets = await self._secrets.of(api, info["config"])
        found = Connector.of(name, info, status, secrets)
        return self._renderer.page(
            request,
            "connector.html",
            connector=found,
            base=f"/connectors/{quote(name, safe='')}",
            topics=await self._topics(name, found),
        )

    async def _topics(self, name: str, connector: Connector) -> builtins.list[str]:
        """Return the topics that the connector has used, and those that a sink is to read. A worker
        may not count them."""
        found = set(connector.topics)
        with suppress(ConnectRefused):
            used = await self._api().ask("GET", connector_path(name, "/topics"))
            found |= set(used.get(name, {}).get("topics", ()))
        return sorted(found)

    async def act(self, request: Request) -> Response:
        """Pause, resume or restart a connector, or restart one of its tasks."""
        form, name = await form_of(request), request.path_params["name"]
        does, task = form.get("does", ""), form.get("task", "")
        if does not in ACTIONS or (task and not (task.isdecimal() and does == "restart")):
            raise BadForm(f"choose one of {', '.join(ACTIONS)}, or the restart of a task")
        action = restart_task(int(task)) if task else ACTIONS[does]
        await self._api().act(name, action)
        return see(f"/connectors/{quote(name, safe='')}")
