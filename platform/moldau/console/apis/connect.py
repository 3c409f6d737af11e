"""The REST API of a Connect worker, as the console asks it. Any Kafka Connect will do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from moldau.console.apis.rest import Refused, Rest
from moldau.operations.connectors import ConnectorRequest, connector_path

if TYPE_CHECKING:
    from moldau.runtime import Runtime

CONNECT: Final = "connect.url"
"""The console's setting for the address of a worker."""
TIMEOUT_S: Final = 60.0
"""The first request about plugins imports all of them, and a check may try a database."""
_HINT: Final = "`moldau connect start` starts one"


class ConnectRefused(Refused):
    """The worker rejected a request, or does not answer."""

    title: ClassVar[str] = "Connect refuses"
    silent_title: ClassVar[str] = "Connect does not answer"


class ConnectApi:
    """One worker, which forwards requests to the leader itself."""

    def __init__(self, runtime: Runtime, url: str) -> None:
        """Take an address, which may have user:password@. Raise ConfigError."""
        self._rest = Rest(runtime, url, "Connect worker", _HINT, TIMEOUT_S)
        self.url = self._rest.url

    async def ask(self, method: str, path: str, **query: str) -> Any:
        """Return the JSON answer, or None if it is empty. Raise ConnectRefused."""
        return await self._rest.request(method, path, ConnectRefused, query=query)

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Send a JSON object, and return the answer as `ask` does."""
        return await self._rest.request(method, path, ConnectRefused, body=body)

    async def act(self, name: str, request: ConnectorRequest) -> None:
        """Send the request of an action on a connector. Raise ConnectRefused."""
        await self.ask(request.method, connector_path(name, request.part), **request.query)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._rest.aclose()
