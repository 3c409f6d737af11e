"""The REST API of a Connect worker, as the console asks it. Any Kafka Connect will do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from moldau.errors import ConfigError, MoldauError

if TYPE_CHECKING:
    import httpx

CONNECT: Final = "connect.url"
"""The console's setting for the address of a worker."""
TIMEOUT_S: Final = 60.0
"""The first request about plugins imports all of them, and a check may try a database."""
_FAILED: Final = 400
_MISSING: Final = 404


class ConnectRefused(MoldauError):
    """The worker rejected a request (`status` says how), or does not answer (`status` 0)."""

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status

    @property
    def is_missing(self) -> bool:
        """Whether there is no such connector."""
        return self.status == _MISSING


class ConnectApi:
    """One worker, which forwards requests to the leader itself."""

    def __init__(self, url: str) -> None:
        """Take an address, which may have user:password@. Raise ConfigError."""
        try:
            import httpx
        except ImportError:
            from moldau.plugins.extras import install_command

            text = f"the pages of Connect need httpx: {install_command('console')}"
            raise ConfigError(text) from None

        scheme, divider, place = url.rstrip("/").partition("://")
        if not divider:
            scheme, place = "http", scheme
        self.url = f"{scheme}://{place.rpartition('@')[2]}"  # without a password, for messages
        try:
            self._client = httpx.AsyncClient(
                base_url=f"{scheme}://{place}", timeout=TIMEOUT_S, trust_env=False
            )
        except httpx.InvalidURL as error:
            raise ConfigError(f"no URL of a Connect worker: {error}") from None

    async def ask(self, method: str, path: str, **query: str) -> Any:
        """Return the JSON answer, or None if it is empty. Raise ConnectRefused."""
        return await self._request(method, path, params=query or None)

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Send a JSON object, and return the answer as `ask` does."""
        return await self._request(method, path, json=body)

    async def _request(self, method: str, path: str, **given: Any) -> Any:
        import httpx

        try:
            found = await self._client.request(method, path, **given)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise ConnectRefused(
                f"no Connect worker answers at {self.url}: {reason}; `moldau connect start` "
                "starts one"
            ) from None
        if found.status_code >= _FAILED:
            raise ConnectRefused(_reason(found), found.status_code)
        return found.json() if found.content else None

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def connector_path(name: str, part: str = "") -> str:
    """Return the path of a connector in the API."""
    return f"/connectors/{quote(name, safe='')}{part}"


def _reason(answer: httpx.Response) -> str:
    try:
        text = answer.json()["message"]
    except (ValueError, KeyError, TypeError):
        text = ""
    return str(text) or f"the Connect worker answers with HTTP {answer.status_code}"
