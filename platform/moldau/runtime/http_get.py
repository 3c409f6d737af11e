"""One bounded HTTP request for a small document. It blocks: run it on a thread."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode, urlsplit

_OK: Final = 200
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class CannotGet(Exception):
    """The document could not be fetched; the text says why, without the URL."""


def check_url(url: str) -> str | None:
    """Return why a URL is not fetched; None if it is. Plain http is for this machine alone:
    elsewhere the document could be changed on the way."""
    parts = urlsplit(url)
    try:
        host = parts.hostname
        _ = parts.port
    except ValueError:
        return "it is no URL"
    if parts.scheme not in ("http", "https") or not host:
        return "it must be https://HOST/..."
    if parts.scheme == "http" and host not in _LOCAL:
        return "http can be read and changed on the way: give https"
    return None


def http_get(url: str, timeout_s: float, bytes_max: int) -> bytes:
    """Return the body of the URL. Redirects are not followed. Raise CannotGet."""
    return _exchanged("GET", url, None, {}, (timeout_s, bytes_max))


def http_post_form(
    url: str, form: Mapping[str, str], headers: Mapping[str, str], timeout_s: float, bytes_max: int
) -> bytes:
    """Send a form, and return the body of the answer. Raise CannotGet."""
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode(form).encode()
    return _exchanged("POST", url, body, {**kind, **headers}, (timeout_s, bytes_max))


def _exchanged(
    method: str,
    url: str,
    body: bytes | None,
    headers: Mapping[str, str],
    limits: tuple[float, int],
) -> bytes:
    timeout_s, bytes_max = limits
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout_s, context=ssl.create_default_context()
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, {"Accept": "application/json", **headers})
        with connection.getresponse() as response:
            answer = response.read(bytes_max + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise CannotGet(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if response.status != _OK:
        raise CannotGet(f"it answers {response.status}")
    if len(answer) > bytes_max:
        raise CannotGet(f"it is larger than {bytes_max} bytes")
    return answer
