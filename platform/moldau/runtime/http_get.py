"""One bounded HTTP request for a small document, or with a form. It blocks: run it on a thread.
Redirects are not followed, so no secret goes to another place than the one that is given."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_OK: Final = 200
_FAILURES: Final = (OSError, http.client.HTTPException, ValueError)
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class CannotGet(Exception):
    """The document could not be fetched; the text says why, without the URL."""


class UntrustedHost(CannotGet):
    """The certificate of the other side is not trusted."""


def check_url(url: str) -> str | None:
    """Return why a URL is not fetched; None if it is. Plain http is for this machine alone:
    elsewhere the document could be changed on the way."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port, (host or "").encode("idna")
    except ValueError:
        return "it is no URL"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "it has a character that no URL has: write it as %XX, and a name as xn--..."
    if parts.username is not None:
        return "a user and a password in it are not sent: leave them out"
    if parts.scheme not in ("http", "https") or not host:
        return "it must be https://HOST/..."
    if parts.scheme == "http" and host not in _LOCAL:
        return "http can be read and changed on the way: give https"
    return None


def http_get(url: str, timeout_s: float, bytes_max: int) -> bytes:
    """Return the body of the URL. Raise CannotGet."""
    headers = {"Accept": "application/json"}
    try:
        connection = _connection(url, timeout_s, None)
        status, body = _exchange(connection, ("GET", _target(url), None, headers), bytes_max)
    except _FAILURES as error:
        raise _cannot_get(error) from error
    if status != _OK:
        raise CannotGet(f"it answers {status}")
    return body


def http_post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    timeouts: tuple[float, float],
    bytes_max: int,
    context: ssl.SSLContext | None = None,
) -> tuple[int, bytes]:
    """Send a form and return the status and the body of the answer. `timeouts` are the seconds to
    connect, and those of silence. Raise CannotGet, or UntrustedHost if the certificate is not that
    of the host, or its authority not one of `context`, else of the system."""
    connect_s, read_s = timeouts
    try:
        connection = _connection(url, connect_s, context)
        try:
            connection.connect()
            assert connection.sock is not None
            connection.sock.settimeout(read_s)
            return _exchange(connection, ("POST", _target(url), body, dict(headers)), bytes_max)
        finally:
            connection.close()
    except ssl.SSLCertVerificationError as error:
        raise UntrustedHost(error.verify_message) from error
    except _FAILURES as error:
        raise _cannot_get(error) from error


def _cannot_get(error: Exception) -> CannotGet:
    """Return the reason in one line. What Python says of a wrong header would show its value."""
    if isinstance(error, ValueError | http.client.InvalidURL) and not isinstance(error, OSError):
        return CannotGet("the address or a header has a character that HTTP does not take")
    return CannotGet(f"{type(error).__name__}: {error}")


def _connection(
    url: str, timeout_s: float, context: ssl.SSLContext | None
) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    assert parts.hostname is not None
    if parts.scheme == "https":
        trusted = context or ssl.create_default_context()
        return http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=timeout_s, context=trusted
        )
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)


def _target(url: str) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _exchange(
    connection: http.client.HTTPConnection,
    request: tuple[str, str, bytes | None, dict[str, str]],
    bytes_max: int,
) -> tuple[int, bytes]:
    try:
        connection.request(*request)
        with connection.getresponse() as response:
            body = response.read(bytes_max + 1)
    finally:
        connection.close()
    if len(body) > bytes_max:
        raise CannotGet(f"it is larger than {bytes_max} bytes")
    return response.status, body
