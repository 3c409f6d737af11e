"""Forwards requests that only the leader may serve, at most once."""

from __future__ import annotations

import ssl
from typing import Any, Final
from urllib.parse import quote

import httpx
import orjson
from starlette.requests import Request
from starlette.responses import Response

from moldau.connect.errors import ConnectError
from moldau.connect.herder.signing import sign
from moldau.connect.storage.configs import SessionKey

TIMEOUT_S: Final = 90.0
READ_S: Final = 2.0
_PASSED: Final = ("content-type", "location", "retry-after")


class Forwarding:
    """A worker's HTTP client for the leader and other workers."""

    def __init__(self, scheme: str = "http", verification: ssl.SSLContext | bool = True) -> None:
        """`verification` is what their certificates are checked by."""
        self.scheme = scheme
        self._verification = verification

    def _client(self, timeout_s: float) -> httpx.AsyncClient:
        """Return a client for one request. Reading the trusted certificates takes most of its
        time, so they are read once."""
        if self._verification is True:
            self._verification = httpx.create_ssl_context(trust_env=False)
        return httpx.AsyncClient(
            timeout=timeout_s,
            trust_env=False,
            verify=self._verification,
            headers={"Connection": "close"},
        )

    async def read(self, url: str, authorization: str | None = None) -> dict[str, Any]:
        """Return the JSON object at a URL of another worker; {} after any failure."""
        headers = {} if authorization is None else {"Authorization": authorization}
        try:
            async with self._client(READ_S) as client:
                found = await client.get(url, headers=headers)
            body = orjson.loads(found.content)
        except (httpx.HTTPError, orjson.JSONDecodeError):
            return {}
        return body if found.status_code == httpx.codes.OK and isinstance(body, dict) else {}

    async def send_tasks(
        self, url: str, key: SessionKey, name: str, configs: list[dict[str, str]]
    ) -> None:
        """Send task configs of a local connector to the leader. Raise ConnectError on failure."""
        await self._ask_leader(url, key, ("POST", name, "tasks"), orjson.dumps(configs))

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
            async with self._client(TIMEOUT_S) as client:
                found = await client.request(
                    method, path, params={"forward": "false"}, content=body, headers=headers
                )
        except httpx.HTTPError as error:
            raise ConnectError(
                "the leader cannot be reached", leader=url, error=str(error)
            ) from error
        if found.status_code >= httpx.codes.BAD_REQUEST:
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
        params: list[tuple[str, str | int | float | bool | None]] = [
            *request.query_params.multi_items(),
            ("forward", "false"),
        ]
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() in ("content-type", "authorization", "accept")
        }
        try:
            async with self._client(TIMEOUT_S) as client:
                found = await client.request(
                    request.method, url, params=params, content=await request.body(),
                    headers=headers,
                )  # fmt: skip
        except httpx.HTTPError as error:
            return _refused(f"the leader cannot be reached at {leader_url}: {error}")
        passed = {name: found.headers[name] for name in _PASSED if name in found.headers}
        return Response(found.content, found.status_code, headers=passed)


def _refused(message: str) -> Response:
    body = orjson.dumps({"error_code": 409, "message": message})
    headers = {"Retry-After": "1"}
    return Response(body, 409, headers=headers, media_type="application/json")
