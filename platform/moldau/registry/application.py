"""The REST API, as Confluent's registry has it, as an ASGI application."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, Final, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moldau.client.serdes.registry.http import HttpRequest
from moldau.errors import ConfigError
from moldau.folds.leader_writer import Outcome
from moldau.metrics import CONTENT_TYPE
from moldau.registry import refusals, requests
from moldau.registry.decisions import Decisions
from moldau.registry.exposition import RegistryMetrics
from moldau.registry.formats import TYPES
from moldau.registry.queries import ALL_VERSIONS, Queries, page
from moldau.registry.refusals import Refusal
from moldau.registry.routing import Call, Routes, Row
from moldau.runtime.http_door import JSON, OCTETS

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
FORWARDED: Final = "forward"
_METHODS: Final = ("GET", "POST", "PUT", "DELETE")
BODY_TYPES: Final = (JSON, MEDIA_TYPE, "application/vnd.schemaregistry+json", OCTETS)
"""The media types of bodies, as Confluent's registry takes them."""


class Instance(Protocol):
    """What the API needs of the registry that it is of."""

    url: str

    async def leader(self) -> str:
        """Return the URL of the leader."""

    async def write(self, decide: Callable[[], Outcome]) -> Any:
        """Return the answer of a decision that was written."""

    async def forward(
        self, leader: str, request: HttpRequest, authorization: str | None
    ) -> tuple[int, bytes]:
        """Return the leader's answer to a request with the login of the client, when its effect is
        visible here."""

    async def cluster_id(self) -> str:
        """Return the id of the cluster."""


class Text(str):
    """An answer that is sent as it is."""


class Api:
    """The endpoints."""

    def __init__(
        self,
        instance: Instance,
        queries: Queries,
        decisions: Decisions,
    ) -> None:
        self._instance = instance
        self._queries = queries
        self._decisions = decisions
        self.reads = Routes(self._reads())
        self.writes = Routes(self._writes())

    def table(self) -> list[tuple[str, str]]:
        """Return method and path of each endpoint."""
        return [(method, path) for method, path, _ in (*self._reads(), *self._writes())]

    def _reads(self) -> list[Row]:
        queries = self._queries
        version = "/subjects/{subject}/versions/{version}"
        check = "/compatibility/subjects/{subject}/versions"
        return [
            ("GET", "/schemas/ids/{id}", self._by_id),
            ("POST", "/subjects/{subject}", self._lookup),
            ("GET", version, self._version),
            ("GET", "/", lambda _: {}),
            ("GET", "/schemas/types", lambda _: list(TYPES)),
            ("GET", "/schemas/ids/{id}/schema", self._text_of_id),
            ("GET", "/schemas/ids/{id}/subjects", self._subjects_of_id),
            ("GET", "/schemas/ids/{id}/versions", self._versions_of_id),
            ("GET", "/schemas/guids/{guid}",
             lambda call: queries.by_guid(call.parts["guid"], call.text("format"))),
            ("GET", "/schemas/guids/{guid}/ids",
             lambda call: queries.ids_of_guid(call.parts["guid"])),
            ("GET", "/schemas", self._schemas),
            ("GET", "/subjects", self._subjects),
            ("GET", "/subjects/{subject}/versions", self._versions),
            ("GET", "/subjects/{subject}/metadata", self._metadata),
            ("GET", f"{version}/schema", self._version_text),
            ("GET", f"{version}/referencedby", self._referenced_by),
            ("POST", check, self._check_all),
            ("POST", f"{check}/{{version}}", self._check),
            ("GET", "/config", self._config),
            ("GET", "/config/{subject}", self._config),
            ("GET", "/mode", self._mode),
            ("GET", "/mode/{subject}", self._mode),
            ("GET", "/contexts", lambda _: queries.contexts()),
            ("GET", "/v1/metadata/id", self._server_id),
            ("GET", "/v1/metadata/version", self._server_version),
        ]  # fmt: skip

    def _writes(self) -> list[Row]:
        decisions = self._decisions
        return [
            ("POST", "/subjects/{subject}/versions", self._register),
            ("DELETE", "/subjects/{subject}",
             lambda call: decisions.delete_subject(call.subject, permanent=call.flag("permanent"))),
            ("DELETE", "/subjects/{subject}/versions/{version}",
             lambda call: decisions.delete_version(
                 call.subject, call.version, permanent=call.flag("permanent"))),
            ("PUT", "/config", self._set_config),
            ("PUT", "/config/{subject}", self._set_config),
            ("DELETE", "/config", lambda call: decisions.delete_config(call.scope)),
            ("DELETE", "/config/{subject}", lambda call: decisions.delete_config(call.scope)),
            ("PUT", "/mode", self._set_mode),
            ("PUT", "/mode/{subject}", self._set_mode),
            ("DELETE", "/mode", lambda call: decisions.delete_mode(call.scope)),
            ("DELETE", "/mode/{subject}", lambda call: decisions.delete_mode(call.scope)),
            ("DELETE", "/contexts/{context}",
             lambda call: decisions.delete_context(call.parts["context"])),
        ]  # fmt: skip

    # Reads

    def _by_id(self, call: Call) -> Any:
        return self._queries.by_id(
            _id_of(call), call.hint, call.text("format"), fetches_max_id=call.flag("fetchMaxId")
        )

    def _text_of_id(self, call: Call) -> Any:
        return Text(self._queries.text_of_id(_id_of(call), call.hint, call.text("format")))

    def _versions_of_id(self, call: Call) -> Any:
        found = self._queries.places_of_id(_id_of(call), call.hint, deleted=call.flag("deleted"))
        return _page(call, found)

    def _subjects_of_id(self, call: Call) -> Any:
        found = self._queries.places_of_id(_id_of(call), call.hint, deleted=call.flag("deleted"))
        return _page(call, list(dict.fromkeys(each["subject"] for each in found)))

    def _schemas(self, call: Call) -> Any:
        found = self._queries.schemas(
            call.prefix, deleted=call.flag("deleted"), latest_only=call.flag("latestOnly")
        )
        return _page(call, found)

    def _subjects(self, call: Call) -> Any:
        found = self._queries.subjects(
            call.prefix, deleted=call.flag("deleted"), only_deleted=call.flag("deletedOnly")
        )
        return _page(call, found)

    def _versions(self, call: Call) -> Any:
        found = self._queries.versions(
            call.subject, deleted=call.flag("deleted"), only_deleted=call.flag("deletedOnly")
        )
        return _page(call, found)

    def _version(self, call: Call) -> Any:
        found = self._queries.version(call.subject, call.version, deleted=call.flag("deleted"))
        return self._queries.described(found, call.text("format"))

    def _version_text(self, call: Call) -> Any:
        return Text(self._version(call)["schema"])

    def _referenced_by(self, call: Call) -> Any:
        found = self._queries.version(call.subject, call.version, deleted=True)
        return self._queries.referrers(found)

    def _metadata(self, call: Call) -> Any:
        found = self._queries.with_metadata(
            call.subject, call.many("key"), call.many("value"), deleted=call.flag("deleted")
        )
        return self._queries.described(found, call.text("format"))

    def _lookup(self, call: Call) -> Any:
        found = self._queries.lookup(
            call.subject,
            requests.registration_of(call.body),
            normalize=call.flag("normalize"),
            deleted=call.flag("deleted"),
        )
        return self._queries.described(found, call.text("format"))

    def _check(self, call: Call) -> Any:
        return self._compatibility(call, call.version)

    def _check_all(self, call: Call) -> Any:
        return self._compatibility(call, ALL_VERSIONS)

    def _compatibility(self, call: Call, number: int | str | None) -> Any:
        asked = requests.registration_of(call.body)
        normalize = call.flag("normalize")
        problems = self._queries.problems(call.subject, asked, number, normalize=normalize)
        answer: dict[str, Any] = {"is_compatible": not problems}
        return answer | ({"messages": problems} if call.flag("verbose") else {})

    def _config(self, call: Call) -> Any:
        return self._queries.config(call.scope, is_effective=call.flag("defaultToGlobal"))

    def _mode(self, call: Call) -> Any:
        return {"mode": self._queries.mode(call.scope, is_effective=call.flag("defaultToGlobal"))}

    async def _server_id(self, call: Call) -> Any:
        clusters = {
            "kafka-cluster": await self._instance.cluster_id(),
            "schema-registry-cluster": "schema-registry",
        }
        return {"id": "", "scope": {"path": [], "clusters": clusters}}

    def _server_version(self, call: Call) -> Any:
        from moldau.runtime.packages import version_of

        return {"version": version_of("moldau-platform") or "", "commitId": "moldau"}

    # Writes

    def _register(self, call: Call) -> Outcome:
        return self._decisions.register(
            call.subject, requests.registration_of(call.body), normalize=call.flag("normalize")
        )

    def _registered(self, call: Call) -> Any:
        """Return the answer to a registration that needs no record, None for another one: whether
        that is refused is for the leader to say."""
        try:
            asked = requests.registration_of(call.body)
            return self._decisions.registered(call.subject, asked, normalize=call.flag("normalize"))
        except Refusal:
            return None

    def _set_config(self, call: Call) -> Outcome:
        return self._decisions.set_config(call.scope, requests.config_of(call.body))

    def _set_mode(self, call: Call) -> Outcome:
        mode = requests.mode_of(call.body)
        return self._decisions.set_mode(call.scope, mode, force=call.flag("force"))

    # Requests

    async def answer(self, request: Request) -> Response:
        """Answer a request. Its errors are answers too."""
        try:
            return await self._answer(request)
        except Refusal as refusal:
            return _json(refusal.to_json(), refusal.status)
        except ConfigError as error:
            return _json({"error_code": 501, "message": str(error)}, 501)

    async def _answer(self, request: Request) -> Response:
        path = _path_of(request)
        read, write = self.reads.find(path), self.writes.find(path)
        method = "GET" if request.method == "HEAD" else request.method
        if read is not None and method in read[0]:
            call = await self._call(request, read[1])
            found = read[0][method](call)
            if isawaitable(found):
                found = await found
            return Response(found) if isinstance(found, Text) else _json(found)
        if write is not None and method in write[0]:
            endpoint = write[0][method]
            call = await self._call(request, write[1])
            return await self._write(request, partial(endpoint, call), call)
        if read is None and write is None:
            raise Refusal(404, "HTTP 404 Not Found")
        raise Refusal(405, "HTTP 405 Method Not Allowed")

    async def _call(self, request: Request, parts: Mapping[str, str]) -> Call:
        """Return the request with its body."""
        body = await request.body() if request.method in ("POST", "PUT") else b""
        query = request.query_params
        return Call(parts, query, body, query.getlist)

    async def _write(self, request: Request, decide: Callable[[], Outcome], call: Call) -> Response:
        """Decide here if this instance leads or nothing is to be written, else at the leader."""
        if request.method == "POST":  # of writes, only registrations are
            known = self._registered(call)
            if known is not None:
                return _json(known)
        leader = await self._instance.leader()
        if leader == self._instance.url:
            return _json(await self._instance.write(decide))
        if request.query_params.get(FORWARDED) == "false":
            raise Refusal(refusals.NO_LEADER, "The leader is just changing: try again")
        query = request.url.query
        target = f"{_path_of(request)}?{query}&" if query else f"{_path_of(request)}?"
        forwarded = HttpRequest(request.method, f"{target}{FORWARDED}=false", call.body or None)
        login = request.headers.get("authorization")
        status, answer = await self._instance.forward(leader, forwarded, login)
        return Response(answer, status, media_type=MEDIA_TYPE)


PROBES: Final[Mapping[str, str]] = {"/healthz": "alive", "/readyz": "ready"}
"""The paths for a supervisor, which has no login. What is served has read all schemas."""


def make_application(api: Api, metrics: RegistryMetrics) -> Starlette:
    """Return the application: the API, and `/metrics` and PROBES beside it."""

    async def answer(request: Request) -> Response:
        began = metrics.begin()
        response = await api.answer(request)
        metrics.end(began, request.method, response.status_code)
        return response

    async def page(request: Request) -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)

    async def probe(request: Request) -> Response:
        return Response(f"{PROBES[request.url.path]}\n", media_type="text/plain")

    return Starlette(
        routes=[
            *(Route(path, probe, methods=["GET"]) for path in PROBES),
            Route("/metrics", page, methods=["GET"]),
            Route("/{path:path}", answer, methods=_METHODS),
        ]
    )


def _path_of(request: Request) -> str:
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    return str(raw.decode("ascii", "replace")).partition("?")[0]


def _id_of(call: Call) -> int:
    text = call.parts["id"]
    if not text.isascii() or not text.isdecimal():
        raise Refusal(404, "HTTP 404 Not Found")
    return int(text)


def _page(call: Call, found: list[Any]) -> list[Any]:
    return page(found, call.number("offset", 0), call.number("limit", -1))


def _json(body: object, status: int = 200) -> Response:
    if body is None:
        return Response(status_code=204)
    data = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    return Response(data, status, media_type=MEDIA_TYPE)
