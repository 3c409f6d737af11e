"""Call the REST API of a Connect worker, moldau's or Java's.

A request to a worker that starts or rebalances is repeated until a deadline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from moldau.operations.connectors import (
    DELETE,
    RESUME,
    STOP,
    STOPPED,
    ConnectorRequest,
    Rest,
    RestRefused,
    configs_of,
    connector_path,
)
from moldau.pipeline.data_directory import PipelineFailed
from moldau.runtime.node_processes import pause_s

_REQUEST_S: Final = 30.0
_OVERVIEW_S: Final = 5.0
_RETRY_PAUSE_S: Final = 0.2
_NOT_FOUND: Final = 404
_BUSY: Final = (0, 409, 502, 503)
"""No answer, and the answers of a worker that starts or rebalances."""
_INVALID: Final = re.compile(
    r"Connector configuration is invalid and contains the following \d+ error\(s\): (.*?)"
    r"(?: You can also find the above list of errors at .*)?"
)

Json = dict[str, Any]


def worker_url(text: str) -> str:
    """Return the address of a worker as a URL without a slash at its end."""
    url = text if text.startswith(("http://", "https://")) else f"http://{text}"
    return url.rstrip("/")


class ConnectApi(Rest):
    """The REST API of one Connect worker. Close it, or use it in a `with` block."""

    def __init__(self, url: str) -> None:
        super().__init__(worker_url(url), "--connect")

    def configs(self) -> dict[str, dict[str, str]]:
        """Return the config of each connector, by name."""
        return configs_of(self._request("GET", "/connectors?expand=info") or {})

    def put(self, name: str, config: Mapping[str, str], retry_s: float) -> None:
        """Create or change a connector, and let it run.

        Raises PipelineFailed if the worker rejects the config."""
        self._request("PUT", connector_path(name, "/config"), dict(config), retry_s=retry_s)
        self._act(name, RESUME, retry_s)

    def stop(self, name: str, retry_s: float) -> bool:
        """Stop a connector's tasks; they commit first. Return whether they ended in that time."""
        self._act(name, STOP, retry_s)
        for _ in range(int(retry_s / _RETRY_PAUSE_S)):
            states = self.states(name, retry_s)
            if states is None or states[0] == STOPPED:
                return True
            pause_s(_RETRY_PAUSE_S)
        return False

    def delete(self, name: str) -> None:
        """Delete a connector. It is no failure if the connector does not exist."""
        self._act(name, DELETE, _REQUEST_S)

    def states(self, name: str, retry_s: float = 0.0) -> list[str] | None:
        """Return the states of a connector and its tasks, or None while it has no status."""
        found = self._request("GET", connector_path(name, "/status"), retry_s=retry_s)
        if found is None:
            return None
        return [found["connector"]["state"], *(task["state"] for task in found["tasks"])]

    def overview(self) -> dict[str, Json]:
        """Return each connector with its state, lag, rate, restarts and last error, by name.

        Lag, rate and restarts are missing with Java's worker."""
        found = self._request("GET", "/v1/connectors", timeout_s=_OVERVIEW_S)
        if isinstance(found, dict):
            return found
        status = self._request("GET", "/connectors?expand=status") or {}
        return {name: _overview_of_java(each["status"]) for name, each in status.items()}

    def _act(self, name: str, request: ConnectorRequest, retry_s: float) -> None:
        self._request(request.method, connector_path(name, request.part), retry_s=retry_s)

    def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        retry_s: float = 0.0,
        timeout_s: float = _REQUEST_S,
    ) -> Any:
        """Send a request. Return the body of the answer, or None if it is empty or 404.

        Repeat the request for `retry_s` while the worker is busy or does not answer."""
        for left in range(int(retry_s / _RETRY_PAUSE_S), -1, -1):
            try:
                return self.ask(method, path, body, timeout_s=timeout_s)
            except RestRefused as error:
                if error.status == _NOT_FOUND:
                    return None
                if not left or error.status not in _BUSY:
                    raise PipelineFailed(_reason(path, error)) from None
            pause_s(_RETRY_PAUSE_S)
        return None


def _reason(path: str, error: RestRefused) -> str:
    if not error.status:
        return str(error)
    plain = " ".join(str(error).split())
    found = _INVALID.fullmatch(plain)  # the text around the errors does not help the user
    return f"the Connect worker rejected {path}: {plain if found is None else found.group(1)}"


def _overview_of_java(status: Json) -> Json:
    """Translate a connector's status of Java's worker to the form of `overview`."""
    found: Json = {"state": status["connector"]["state"], "type": status.get("type", "unknown")}
    if status["connector"].get("trace"):
        found["error"] = status["connector"]["trace"].split("\n", 1)[0]
    found["tasks"] = [
        {"id": task["id"], "state": task["state"], **_error_of(task)} for task in status["tasks"]
    ]
    return found


def _error_of(task: Json) -> Json:
    return {"error": task["trace"].split("\n", 1)[0]} if task.get("trace") else {}
