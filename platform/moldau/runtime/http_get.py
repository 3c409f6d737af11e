"""One bounded HTTP request for a small document, or with a form. It blocks: run it on a thread.
Redirects are not followed, so no secret goes to another place than the one that is given."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

_OK: Final = 200
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")


class CannotGet(Exception):
    """The document could not be fetched; the text says why, without the URL."""


class UntrustedHost(CannotGet):
    """The certificate of the other side is not trusted."""


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
    """Return the body of the URL. Raise CannotGet."""
    connection = _connection(url, timeout_s, None)
    headers = {"Accept": "application/json"}
    status, body = _exchange(connection, ("GET", _target(url), None, headers), bytes_max)
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
    connection = _connection(url, connect_s, context)
    try:
        connection.connect()
        assert connection.sock is not None
        connection.sock.settimeout(read_s)
    except ssl.SSLCertVerificationError as error:
        connection.close()
        raise UntrustedHost(error.verify_message) from error
    except OSError as error:
        connection.close()
        raise CannotGet(f"{type(error).__name__}: {error}") from error
    return _exchange(connection, ("POST", _target(url), body, dict(headers)), bytes_max)


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
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise CannotGet(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
    if len(body) > bytes_max:
        raise CannotGet(f"it is larger than {bytes_max} bytes")
    return response.status, body
