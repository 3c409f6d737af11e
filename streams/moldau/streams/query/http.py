"""HTTP/1.1 of the query API, without IO: bytes to requests and answers, and back, on h11.

Why h11 and no web framework: it is a small parser of rules that others maintain well (uvicorn and
httpx are built on it), it has no dependencies, and since it does no IO, the API runs on
`moldau.runtime` like the rest of a worker, in the simulator too.

Invariants: requests are bounded, bodies are refused; the connection is closed after anything that
is not HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import h11
import msgspec

from moldau.link.http_protection import CHALLENGE

JSON: Final = "application/json"
FORWARDED: Final = "moldau-forwarded"
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_HEAD_BYTES_MAX: Final = 32 * 1024


class NotHttp(Exception):
    """The peer sent something that is not HTTP, or more of it than is allowed."""


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


class ServerTalk:
    """The server's side of one connection."""

    def __init__(self) -> None:
        self._talk = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES_MAX)

    def receive(self, data: bytes) -> None:
        """Receive bytes; no bytes mean that the client has closed its side."""
        self._talk.receive_data(data)

    def next_request(self) -> Request | None:
        """Return the next whole request, None until it has arrived. NotHttp ends the connection."""
        if self._talk.our_state is h11.DONE and self._talk.their_state is h11.DONE:
            self._talk.start_next_cycle()
        request: Request | None = None
        while True:
            try:
                event = self._talk.next_event()
            except h11.RemoteProtocolError as error:
                raise NotHttp(str(error)) from error
            if isinstance(event, h11.Request):
                request = _request(event)
                self._pending = request
            elif isinstance(event, h11.Data):
                raise NotHttp("a query has no body")
            elif isinstance(event, h11.EndOfMessage):
                return self._pending
            else:
                return None

    def answer(self, answer: Answer) -> bytes:
        """Return the bytes of an answer to the last request."""
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
        ]
        if answer.status == HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", CHALLENGE.decode()))
        if answer.is_retryable:
            headers.append(("Retry-After", "1"))
        reason = HTTPStatus(answer.status).phrase.encode()
        events = (
            h11.Response(status_code=answer.status, headers=headers, reason=reason),
            h11.Data(data=answer.body),
            h11.EndOfMessage(),
        )
        return b"".join(self._talk.send(event) or b"" for event in events)

    @property
    def is_over(self) -> bool:
        """Whether no request can follow on this connection."""
        ends = (h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)
        return self._talk.our_state in ends or self._talk.their_state in ends

    _pending: Request | None = None


def _request(event: h11.Request) -> Request:
    target = event.target.decode("latin-1")
    parts = urlsplit(target)
    segments = tuple(unquote(each) for each in parts.path.split("/") if each)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    headers = {bytes(name): bytes(value) for name, value in event.headers}
    return Request(
        event.method.decode("latin-1"),
        target,
        segments,
        options,
        FORWARDED.encode() in headers,
        headers.get(b"authorization", b"").decode("latin-1"),
    )


class ClientTalk:
    """The client's side of one request to another worker."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._talk = h11.Connection(h11.CLIENT)
        self._status = 0
        self._content_type = JSON
        self._body = bytearray()

    def ask(self, target: str, authorization: str = "") -> bytes:
        """Return the bytes of the request, with the login of the client."""
        headers = [("Host", self._server), ("Connection", "close"), (FORWARDED, "1")]
        if authorization:
            headers.append(("Authorization", authorization))
        request = h11.Request(method="GET", target=target, headers=headers)
        return b"".join(self._talk.send(event) or b"" for event in (request, h11.EndOfMessage()))

    def receive(self, data: bytes) -> Answer | None:
        """Receive bytes. Return the answer once it is whole. Raise NotHttp if it is bad."""
        try:
            self._talk.receive_data(data)
            while True:
                event = self._talk.next_event()
                if isinstance(event, h11.Response):
                    self._status = event.status_code
                    found = dict(event.headers).get(b"content-type", JSON.encode())
                    self._content_type = found.decode("latin-1")
                elif isinstance(event, h11.Data):
                    self._body += event.data
                    if len(self._body) > ANSWER_BYTES_MAX:
                        raise NotHttp("the answer is too long")
                elif isinstance(event, h11.EndOfMessage):
                    is_retryable = self._status == HTTPStatus.SERVICE_UNAVAILABLE
                    return Answer(self._status, bytes(self._body), self._content_type, is_retryable)
                elif isinstance(event, h11.ConnectionClosed):
                    raise NotHttp("the connection was closed")
                else:
                    return None
        except h11.RemoteProtocolError as error:
            raise NotHttp(str(error)) from error
