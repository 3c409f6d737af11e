"""Forwards requests that only the leader may serve, at most once."""

from __future__ import annotations

import ssl
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response

from moldau.connect.errors import ConnectError
from moldau.connect.herder.signing import sign
from moldau.connect.storage.configs import SessionKey
from moldau.connect.storage.keys import dump
from moldau.runtime import Runtime
from moldau.runtime.http_client import HttpClient, HttpTimeouts, NoAnswer

TIMEOUT_S: Final = 90.0
_READ: Final = HttpTimeouts(2.0, 2.0)
_PASSED: Final = ("content-type", "location", "retry-after")


class ForwardingClient:
    """A worker's HTTP client for the leader and other workers."""

    def __init__(
        self, runtime: Runtime, scheme: str = "http", tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` checks their certificates; None trusts the authorities of the system."""
        self.scheme = scheme
        self._client = HttpClient(runtime, HttpTimeouts(TIMEOUT_S, TIMEOUT_S), tls)

    async def read(self, url: str, authorization: str | None = None) -> dict[str, Any]:
        """Return the JSON object at a URL of another worker; {} after any failure."""
        headers = {} if authorization is None else {"Authorization": authorization}
        try:
            found = await self._client.request("GET", url, headers=headers, waits=_READ)
            body = found.json()
        except (NoAnswer, ValueError):
            return {}
        return body if found.status == HTTPStatus.OK and isinstance(body, dict) else {}

    async def send_tasks(
        self, url: str, key: SessionKey, name: str, configs: list[dict[str, str]]
    ) -> None:
        """Send task configs of a local connector to the leader. Raise ConnectError on failure."""
        await self._ask_leader(url, key, ("POST", name, "tasks"), dump(configs))

    async def fence(self, url: str, key: SessionKey, name: str) -> None:
        """Have the leader fence the older tasks of a connector. Raise ConnectError on failure."""
        await self._ask_leader(url, key, ("PUT", name, "fence"), b"")

    async def _ask_leader(
        self, url: str, key: SessionKey, what: tuple[str, str, str], body: bytes
    ) -> None:
        method, name, part = what
        path = f"{url.rstrip('/')}/connectors/{quote(name, safe='')}/{part}"
        headers = {**sign(key, body), "Content-Type": "application/json"}
        try:
            found = await self._client.request(method, f"{path}?forward=false", body, headers)
        except NoAnswer as error:
            raise ConnectError(
                "the leader cannot be reached", leader=url, error=str(error)
            ) from error
        if found.status >= HTTPStatus.BAD_REQUEST:
            raise ConnectError(
                "the leader refused a request of this worker",
                leader=url, request=part, answer=found.text,
            )  # fmt: skip

    async def forward(self, request: Request, leader_url: str) -> Response:
        """Return the leader's answer. Reject a request that was forwarded already: two workers that
        take each other for the leader must not forward it forever."""
        if request.query_params.get("forward") == "false":
            return _refused("the leader of the workers is just changing")
        sent: bytes = request.scope.get("raw_path") or request.url.path.encode()
        url = leader_url.rstrip("/") + sent.decode("ascii", "replace")
        query = urlencode([*request.query_params.multi_items(), ("forward", "false")])
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() in ("content-type", "authorization", "accept")
        }
        try:
            found = await self._client.request(
                request.method, f"{url}?{query}", await request.body(), headers
            )
        except NoAnswer as error:
            return _refused(f"the leader cannot be reached at {leader_url}: {error}")
        passed = {name: found.headers[name] for name in _PASSED if name in found.headers}
        return Response(found.body, found.status, headers=passed)


def _refused(message: str) -> Response:
    body = dump({"error_code": 409, "message": message})
    headers = {"Retry-After": "1"}
    return Response(body, 409, headers=headers, media_type="application/json")
