"""A Connect worker's REST API as a pipeline uses it: ours, or Java's.

A worker that starts or rebalances is asked again, until a deadline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import httpx

from moldau.pipeline.place import PipelineFailed
from moldau.runtime.node_processes import pause_s

_REQUEST_S: Final = 30.0
_OVERVIEW_S: Final = 5.0
_AGAIN_S: Final = 0.2
_CONFLICT, _NOT_FOUND, _SERVER_ERROR, _REFUSED = 409, 404, 500, 400
_INVALID: Final = re.compile(
    r"Connector configuration is invalid and contains the following \d+ error\(s\): (.*?)"
    r"(?: You can also find the above list of errors at .*)?"
)

Json = dict[str, Any]


class ConnectApi:
    """One worker."""

    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            url = f"http://{url}"
        self.url = url.rstrip("/")
        try:
            self._client = httpx.Client(base_url=self.url, timeout=_REQUEST_S, trust_env=False)
        except httpx.InvalidURL as error:
            raise PipelineFailed(f"--connect {url}: {error}") from None

    def close(self) -> None:
        self._client.close()

    def configs(self) -> dict[str, dict[str, str]]:
        """The config of each connector."""
        found = self._ask("GET", "/connectors?expand=info") or {}
        return {name: dict(each["info"]["config"]) for name, each in found.items()}

    def put(self, name: str, config: Mapping[str, str], patience_s: float) -> None:
        """Create or change a connector, and let it run. PipelineFailed if the worker refuses."""
        self._ask("PUT", _path(name, "/config"), dict(config), patience_s=patience_s)
        self._ask("PUT", _path(name, "/resume"), patience_s=patience_s)

    def stop(self, name: str, patience_s: float) -> bool:
        """End a connector's tasks; they commit first. Whether they have ended in that time."""
        self._ask("PUT", _path(name, "/stop"), patience_s=patience_s)
        for _ in range(int(patience_s / _AGAIN_S)):
            states = self.states(name, patience_s)
            if states is None or states[0] == "STOPPED":
                return True
            pause_s(_AGAIN_S)
        return False

    def delete(self, name: str) -> None:
        """Nothing happens to one that does not exist."""
        self._ask("DELETE", _path(name), patience_s=_REQUEST_S)

    def states(self, name: str, patience_s: float = 0.0) -> list[str] | None:
        """Of the connector and its tasks; None while it has no status."""
        found = self._ask("GET", _path(name, "/status"), patience_s=patience_s)
        if found is None:
            return None
        return [found["connector"]["state"], *(task["state"] for task in found["tasks"])]

    def overview(self) -> dict[str, Json]:
        """Each connector with lag, rate, restarts and last error; without these from Java's."""
        found = self._ask("GET", "/v1/connectors", timeout_s=_OVERVIEW_S)
        if isinstance(found, dict):
            return found
        status = self._ask("GET", "/connectors?expand=status") or {}
        return {name: _of_java(each["status"]) for name, each in status.items()}

    def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        patience_s: float = 0.0,
        timeout_s: float = _REQUEST_S,
    ) -> Any:
        """The body of the answer; None where there is no such thing."""
        for left in range(int(patience_s / _AGAIN_S), -1, -1):
            try:
                answer = self._client.request(method, path, json=body, timeout=timeout_s)
            except httpx.HTTPError as error:
                if not left:
                    raise PipelineFailed(
                        f"no Connect worker answers at {self.url}: {error}"
                    ) from None
            else:
                is_busy = answer.status_code in (_CONFLICT, 502, 503)
                if not (is_busy and left):
                    return self._body(answer, path)
            pause_s(_AGAIN_S)
        return None

    def _body(self, answer: httpx.Response, path: str) -> Any:
        if answer.status_code == _NOT_FOUND:
            return None
        if answer.status_code >= _REFUSED:
            raise PipelineFailed(f"the Connect worker refused {path}: {_message(answer)}")
        return answer.json() if answer.content else None


def _path(name: str, tail: str = "") -> str:
    return f"/connectors/{quote(name, safe='')}{tail}"


def _message(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        return answer.text.strip() or f"HTTP {answer.status_code}"
    text = str(body.get("message", body)) if isinstance(body, dict) else str(body)
    plain = " ".join(text.split())
    found = _INVALID.fullmatch(plain)  # what stands around the errors is no help here
    return plain if found is None else found.group(1)


def _of_java(status: Json) -> Json:
    found: Json = {"state": status["connector"]["state"], "type": status.get("type", "unknown")}
    if status["connector"].get("trace"):
        found["error"] = status["connector"]["trace"].split("\n", 1)[0]
    found["tasks"] = [
        {"id": task["id"], "state": task["state"], **_error_of(task)} for task in status["tasks"]
    ]
    return found


def _error_of(task: Json) -> Json:
    return {"error": task["trace"].split("\n", 1)[0]} if task.get("trace") else {}
