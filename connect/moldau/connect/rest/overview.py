"""`/v1`: facts that Kafka Connect's API does not have, and `/metrics`.

GET /v1/connectors   every connector with lag, rate, restarts and last error in one line
GET /v1/tasks        the same facts about the tasks and connectors of this worker only
GET /v1/worker       the worker's own converters, for `moldau connect tap`
GET /metrics         for Prometheus, by Kafka Connect's names
GET /healthz         for a supervisor: the process answers
GET /readyz          for a supervisor: as Kafka Connect's /health, in a word and without a login
"""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from moldau.connect.herder.operations import Operations, type_of
from moldau.connect.herder.refusals import NotFound
from moldau.connect.rest.exposition import read_metrics
from moldau.connect.rest.forwarding import ForwardingClient
from moldau.connect.storage.keys import TaskId
from moldau.connect.worker.guarantee import guarantee_of
from moldau.metrics import render_prometheus

PROBES: Final = frozenset(("/healthz", "/readyz"))
"""The paths for a supervisor, which has no login."""
Json = dict[str, Any]
_UNSEEN: Json = {}


class Overview:
    """The state of all connectors and tasks, as one worker knows it."""

    def __init__(self, operations: Operations, forwarding: ForwardingClient) -> None:
        self._operations = operations
        self._herder = operations.herder
        self._forwarding = forwarding

    def here(self) -> Json:
        """Return the facts about this worker's connectors and tasks, by name."""
        herder = self._herder
        found: Json = {}
        for what, history in herder.core.histories.items():
            entry: Json = {"restarts": history.restarts.total}
            due_ms = history.restarts.due_ms
            if due_ms is not None:
                entry["restart_in_ms"] = max(0, due_ms - herder.now_ms())
            entry["waits_for"] = herder.waits_for(what)
            if isinstance(what, TaskId):
                metrics = herder.worker.metrics(what)
                entry["metrics"] = metrics
                entry["rate"] = herder.worker.rate(what)
                entry["lag"] = metrics.get("sink-record-lag")
                entry["missed"] = metrics.get("sink-record-missed-total")
                entry["pid"] = herder.worker.pid(what)
            found[f"{what.connector}/{what.task}" if isinstance(what, TaskId) else what] = entry
        return found

    def converters(self) -> dict[str, str]:
        """Return the worker's converter settings, except those that may be secret."""
        prefixes = ("key.converter", "value.converter", "header.converter")
        return {
            name: value
            for name, value in self._herder.settings.items()
            if name.startswith(prefixes) and "auth" not in name and "password" not in name
        }

    async def everywhere(self, authorization: str | None = None) -> Json:
        """Return the facts of `here` from all workers that have written a status."""
        statuses = self._herder.statuses.image
        workers = {each.worker_id for each in statuses.connectors.values()}
        workers |= {each.worker_id for each in statuses.tasks.values()}
        found: Json = {}
        for worker in sorted(workers - {self._herder.worker_id}):
            url = f"{self._forwarding.scheme}://{worker}/v1/tasks"
            found.update(await self._forwarding.read(url, authorization))
        found.update(self.here())
        return found

    async def connectors(self, authorization: str | None = None) -> Json:
        """Return the facts about every connector, by name."""
        details = await self.everywhere(authorization)
        found: Json = {}
        for name in self._operations.names():
            config = self._herder.configs.image.get(name)
            props = {} if config is None or config.config is None else config.config
            try:
                status = self._operations.status(name)
            except NotFound:
                status = {"connector": {"state": "UNASSIGNED", "worker_id": ""}, "tasks": []}
            found[name] = {
                "type": type_of(props),
                **_part(status["connector"], details.get(name, _UNSEEN)),
                "guarantee": guarantee_of(props, self._herder.settings),
                "tasks": [
                    {"id": task["id"], **_part(task, details.get(f"{name}/{task['id']}", _UNSEEN))}
                    for task in status["tasks"]
                ],
            }
        return found

    def routes(self) -> list[Route]:
        from moldau.connect.rest.application import answer

        async def connectors(request: Request) -> Response:
            return answer(await self.connectors(request.headers.get("authorization")))

        async def tasks(request: Request) -> Response:
            return answer(self.here())

        async def worker(request: Request) -> Response:
            return answer({"converters": self.converters()})

        async def metrics(request: Request) -> Response:
            return PlainTextResponse(render_prometheus(read_metrics(self._operations)))

        async def alive(request: Request) -> Response:
            return PlainTextResponse("alive\n")

        async def ready(request: Request) -> Response:
            if self._herder.is_ready:
                return PlainTextResponse("ready\n")
            return PlainTextResponse(f"starts: {self._herder.stage}\n", 503)

        return [
            Route("/healthz", alive, methods=["GET"]),
            Route("/readyz", ready, methods=["GET"]),
            Route("/v1/connectors", connectors, methods=["GET"]),
            Route("/v1/tasks", tasks, methods=["GET"]),
            Route("/v1/worker", worker, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
        ]


def _part(status: Json, detail: Json) -> Json:
    found: Json = {"state": status["state"], "worker_id": status["worker_id"]}
    if status.get("trace"):
        found["error"] = status["trace"].split("\n", 1)[0]
    for key in ("lag", "missed", "rate", "restarts", "restart_in_ms", "pid", "waits_for"):
        if detail.get(key) is not None:
            found[key] = detail[key]
    return found
