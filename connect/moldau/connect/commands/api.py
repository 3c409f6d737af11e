"""The client of a worker's REST API that commands use."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

from moldau.cli.command import Context, UsageError
from moldau.errors import MoldauError

DEFAULT_URL: Final = "http://127.0.0.1:8083"
VARIABLE: Final = "MOLDAU_CONNECT"
TIMEOUT_S: Final = 100.0
_TOO_HIGH: Final = 400


class RestRefused(MoldauError):
    """The worker rejected a request, or cannot be reached."""


def add_url(parser: ArgumentParser) -> None:
    """Add the option for the worker's URL."""
    parser.add_argument(
        "--url", metavar="URL", help=f"a worker's REST API; else {VARIABLE}, else {DEFAULT_URL}"
    )


def add_json(parser: ArgumentParser) -> None:
    """Add the option for JSON output."""
    parser.add_argument("--json", action="store_true", help="print JSON")


class Rest:
    """The REST API of one worker, which forwards requests to the leader itself."""

    def __init__(self, arguments: Namespace, context: Context) -> None:
        import httpx

        url = arguments.url or context.environment.get(VARIABLE) or DEFAULT_URL
        if not url.startswith(("http://", "https://")):
            url = f"http://{url}"
        self.url = url.rstrip("/")
        try:
            self._client = httpx.Client(base_url=self.url, timeout=TIMEOUT_S, trust_env=False)
        except httpx.InvalidURL as error:
            raise UsageError(f"--url: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Send a request and return the JSON answer. Raise RestRefused with the worker's reason."""
        import httpx

        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        try:
            found = self._client.request(
                method, path, content=content, headers=headers, params=query
            )
        except httpx.HTTPError as error:
            raise RestRefused(
                f"no Connect worker answers at {self.url}: {error}; start one with "
                "`moldau connect start`, or name another with --url"
            ) from None
        if found.status_code >= _TOO_HIGH:
            raise RestRefused(_message(found.text) or f"HTTP {found.status_code}")
        return found.json() if found.content else None

    def connector(self, name: str, tail: str = "") -> str:
        """Return the path of a connector."""
        return f"/connectors/{quote(name, safe='')}{tail}"


def _message(text: str) -> str:
    try:
        body = json.loads(text)
    except ValueError:
        return text.strip()
    return str(body.get("message", text)) if isinstance(body, dict) else text
