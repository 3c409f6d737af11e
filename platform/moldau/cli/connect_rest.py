"""The client of a Connect worker's REST API that commands use."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

from moldau.cli.command import Context, UsageError
from moldau.errors import MoldauError

if TYPE_CHECKING:
    import ssl

DEFAULT_URL: Final = "http://127.0.0.1:8083"
VARIABLE: Final = "MOLDAU_CONNECT"
CA_VARIABLE: Final = "MOLDAU_CONNECT_CA"
TOKEN_VARIABLE: Final = "MOLDAU_CONNECT_TOKEN"  # noqa: S105 - its name
TIMEOUT_S: Final = 100.0
_TOO_HIGH: Final = 400


class RestRefused(MoldauError):
    """The worker rejected a request, or cannot be reached."""


def add_url(parser: ArgumentParser) -> None:
    """Add the option for the worker's URL."""
    parser.add_argument(
        "--url",
        metavar="URL",
        help=f"a worker's REST API; else {VARIABLE}, which may have user:password@, else "
        f"{DEFAULT_URL}; {TOKEN_VARIABLE} is a bearer token, {CA_VARIABLE} a PEM file with the "
        "authority of https",
    )


def add_json(parser: ArgumentParser) -> None:
    """Add the option for JSON output."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def named_url(context: Context) -> str | None:
    """Return the URL of the environment or of the profile. A profile that is asked for by an option
    wins over the environment, as options do."""
    if context.profile_name is not None:
        return context.profile.profile.connect
    return context.environment.get(VARIABLE) or context.profile.profile.connect


class Rest:
    """The REST API of one worker, which forwards requests to the leader itself."""

    def __init__(self, arguments: Namespace, context: Context, option: str = "--url") -> None:
        """Take the URL of the arguments, which `option` gives, or of the context."""
        from moldau.client.base.extras import need

        httpx = need("httpx", "connect-rest")
        self._option = option
        url = arguments.url or named_url(context) or DEFAULT_URL
        if not url.startswith(("http://", "https://")):
            url = f"http://{url}"
        scheme, _, place = url.rstrip("/").partition("://")
        self.url = f"{scheme}://{place.rpartition('@')[2]}"  # without a password, for messages
        token = context.environment.get(TOKEN_VARIABLE)
        headers = {} if not token else {"Authorization": f"Bearer {token}"}
        try:
            self._client = httpx.Client(
                base_url=f"{scheme}://{place}", timeout=TIMEOUT_S, trust_env=False,
                headers=headers, verify=_verification(context.environment.get(CA_VARIABLE)),
            )  # fmt: skip
        except httpx.InvalidURL as error:
            raise UsageError(f"{option}: {error}") from None

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
                f"`moldau connect start`, or name another with {self._option}"
            ) from None
        if found.status_code >= _TOO_HIGH:
            raise RestRefused(_message(found.text) or f"HTTP {found.status_code}")
        return found.json() if found.content else None

    def connector(self, name: str, tail: str = "") -> str:
        """Return the path of a connector."""
        return f"/connectors/{quote(name, safe='')}{tail}"


def _verification(path: str | None) -> ssl.SSLContext | bool:
    if not path:
        return True
    import ssl

    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        raise UsageError(f"{CA_VARIABLE}={path}: it cannot be used: {error}") from None


def _message(text: str) -> str:
    try:
        body = json.loads(text)
    except ValueError:
        return text.strip()
    return str(body.get("message", text)) if isinstance(body, dict) else text
