"""Requests and answers of the query API: those of the server, which is called by ASGI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec

from moldau.deferred import dataclass
from moldau.link.http.protection import CHALLENGE

JSON: Final = "application/json"
FORWARDED: Final = "moldau-forwarded"


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a client."""

    method: str
    target: str
    path: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    is_forwarded: bool = False
    """Whether another worker forwarded the request: it is answered here or not at all."""
    authorization: str = field(default="", repr=False)
    """The header with the client's login."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request."""

    status: int
    body: bytes
    content_type: str = JSON
    is_retryable: bool = False


def json_answer(value: object, status: int = 200, *, is_retryable: bool = False) -> Answer:
    """Return an answer with a value as JSON."""
    return Answer(status, msgspec.json.encode(value) + b"\n", JSON, is_retryable)


def refusal(status: int, reason: str, *, is_retryable: bool = False) -> Answer:
    """Return an error as an answer; all errors have this form."""
    return json_answer({"error": reason, "again": is_retryable}, status, is_retryable=is_retryable)


def request_of(scope: Mapping[str, Any]) -> Request:
    """Return the request of an ASGI scope. Its segments are unquoted one by one, so a key may have
    slashes."""
    path, query = scope["raw_path"].decode("latin-1"), scope["query_string"].decode("latin-1")
    headers = dict(scope["headers"])
    return Request(
        scope["method"],
        f"{path}?{query}" if query else path,
        tuple(unquote(each) for each in path.split("/") if each),
        dict(parse_qsl(query, keep_blank_values=True)),
        FORWARDED.encode() in headers,
        headers.get(b"authorization", b"").decode("latin-1"),
    )


async def send_answer(answer: Answer, send: Any) -> None:
    """Send an answer by ASGI."""
    headers = [
        (b"content-type", answer.content_type.encode()),
        (b"content-length", str(len(answer.body)).encode()),
    ]
    if answer.status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", CHALLENGE))
    if answer.is_retryable:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
