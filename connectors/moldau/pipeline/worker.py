"""Call the REST API of a Connect worker, moldau's or Java's.

A request to a worker that starts or rebalances is repeated until a deadline.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

from moldau.pipeline.data_directory import PipelineFailed
from moldau.runtime.node_processes import pause_s

if TYPE_CHECKING:
    import httpx

_REQUEST_S: Final = 30.0
_OVERVIEW_S: Final = 5.0
_RETRY_PAUSE_S: Final = 0.2
_CONFLICT, _NOT_FOUND, _CLIENT_ERROR = 409, 404, 400
_INVALID: Final = re.compile(
    r"Connector configuration is invalid and contains the following \d+ error\(s\): (.*?)"
    r"(?: You can also find the above list of errors at .*)?"
)

Json = dict[str, Any]


def worker_url(text: str) -> str:
    """Return the address of a worker as a URL without a slash at its end."""
    url = text if text.startswith(("http://", "https://")) else f"http://{text}"
    return url.rstrip("/")


class ConnectApi:
    """The REST API of one Connect worker. Close it, or use it in a `with` block."""

    def __init__(self, url: str) -> None:
        import httpx

        self.url = worker_url(url)
        try:
            self._client = httpx.Client(base_url=self.url, timeout=_REQUEST_S, trust_env=False)
        except httpx.InvalidURL as error:
            raise PipelineFailed(f"--connect {url}: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def configs(self) -> dict[str, dict[str, str]]:
        """Return the config of each connector, by name."""
        found = self._request("GET", "/connectors?expand=info") or {}
        return {name: dict(each["info"]["config"]) for name, each in found.items()}

    def put(self, name: str, config: Mapping[str, str], retry_s: float) -> None:
        """Create or change a connector, and let it run.

        Raises PipelineFailed if the worker rejects the config."""
        self._request("PUT", _path(name, "/config"), dict(config), retry_s=retry_s)
        self._request("PUT", _path(name, "/resume"), retry_s=retry_s)

    def stop(self, name: str, retry_s: float) -> bool:
        """Stop a connector's tasks; they commit first. Return whether they ended in that time."""
        self._request("PUT", _path(name, "/stop"), retry_s=retry_s)
        for _ in range(int(retry_s / _RETRY_PAUSE_S)):
            states = self.states(name, retry_s)
            if states is None or states[0] == "STOPPED":
                return True
            pause_s(_RETRY_PAUSE_S)
        return False

    def delete(self, name: str) -> None:
        """Delete a connector. It is no failure if the connector does not exist."""
        self._request("DELETE", _path(name), retry_s=_REQUEST_S)

    def states(self, name: str, retry_s: float = 0.0) -> list[str] | None:
        """Return the states of a connector and its tasks, or None while it has no status."""
        found = self._request("GET", _path(name, "/status"), retry_s=retry_s)
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
        import httpx

        for left in range(int(retry_s / _RETRY_PAUSE_S), -1, -1):
            try:
                answer = self._client.request(method, path, json=body, timeout=timeout_s)
            except httpx.HTTPError as error:
                if not left:
                    raise PipelineFailed(
                        f"no Connect worker answers at {self.url}: start it, or correct the "
                        f"address ({error})"
                    ) from None
            else:
                is_busy = answer.status_code in (_CONFLICT, 502, 503)
                if not (is_busy and left):
                    return self._answer_body(answer, path)
            pause_s(_RETRY_PAUSE_S)
        return None

    def _answer_body(self, answer: httpx.Response, path: str) -> Any:
        if answer.status_code == _NOT_FOUND:
            return None
        if answer.status_code >= _CLIENT_ERROR:
            raise PipelineFailed(f"the Connect worker rejected {path}: {_error_message(answer)}")
        return answer.json() if answer.content else None


def _path(name: str, tail: str = "") -> str:
    return f"/connectors/{quote(name, safe='')}{tail}"


def _error_message(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        return answer.text.strip() or f"HTTP {answer.status_code}"
    text = str(body.get("message", body)) if isinstance(body, dict) else str(body)
    plain = " ".join(text.split())
    found = _INVALID.fullmatch(plain)  # the text around the errors does not help the user
    return plain if found is None else found.group(1)


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
