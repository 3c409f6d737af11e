"""Both ends of a connection above its frames: headers, correlation, and order. No IO.

Server: `receive(frame)` returns the request, `answer(arrival, ...)` returns the bytes that may be
written now. Responses are sent in the order of their requests, even if they are made in another
order. An API or version that is not served is a problem of the arrival and not raised: the caller
decides what to do. One rule is here: ApiVersions in an unknown version is answered in version 0.

Client: `send(request, version)` returns the bytes of a request, `receive(frame)` the response to
the oldest request in flight.

A frame that cannot be decoded raises MalformedMessage; the connection must then be closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from moldau.errors import MalformedMessage
from moldau.errors.codes import ErrorCode
from moldau.protocol.declare import Request, Response
from moldau.protocol.headers import (
    API_VERSIONS,
    request_frame,
    request_header_version,
    response_frame,
    response_header_version,
)
from moldau.protocol.limits import DECODE_BUDGET
from moldau.protocol.messages import request_class, response_class
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.protocol.schemas.headers import RequestHeader, ResponseHeader
from moldau.protocol.versions import Versions

if TYPE_CHECKING:
    from moldau.protocol.codec import Codec

# A client has chosen its broker, so a response may cost more than the request of a stranger: as
# much as the metadata of two million partitions with three replicas, about what the largest frame
# holds.
ANSWER_BUDGET: Final = 2 << 30

_START = Struct(">hhi")
_CORRELATION = Struct(">i")
_new = object.__new__
_ERROR_CODE = Struct(">h")
# Longer headers are decoded each time: client ids and tags of strangers must not fill the memory.
_LONGEST_KNOWN_HEADER = 256
_SHARED_HEADERS = 1024

_LAST_CORRELATION_ID = 2**31 - 1


class Problem(Enum):
    """Why a request cannot be decoded, although its frame is valid."""

    UNKNOWN_API = "unknown API"
    UNSUPPORTED_VERSION = "unsupported version"


class Arrival:
    """A received request: its header, and its body still as bytes."""

    __slots__ = ("body", "client_id", "correlation_id", "frame", "key", "problem", "version")

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: Any
    problem: Problem | None
    frame: list[Any] | None
    """The buffers of the response, once it exists; an empty list if none is sent."""

    def decode(self, budget: int = DECODE_BUDGET) -> Request:
        """Return the decoded request; views in it share the frame's memory. The caller may let
        MalformedMessage through: the connection is closed then.

        Bytes behind it are ignored, as Kafka does: librdkafka 2.16 requests the metadata of all
        topics with four bytes for its null array where one is right, so that three are left over.
        """
        assert self.problem is None
        assert self.body is not None, "decoded after `serve` returned, and not kept"
        request: Request = _request_codec(self.key).decode_start(self.body, self.version, budget)
        return request

    @property
    def response_version(self) -> int:
        """The version of the response."""
        if self.problem is not None and self.key == API_VERSIONS:
            return 0
        return self.version

    def __repr__(self) -> str:
        problem = f", {self.problem.value}" if self.problem else ""
        return f"<Arrival key={self.key} version={self.version} id={self.correlation_id}{problem}>"


@cache
def _request_codec(key: int) -> Codec:
    return request_class(key).codec


class _Usual(NamedTuple):
    """A received header; the next one of a client differs only in the correlation id."""

    unpack: Callable[[Any], tuple[Any, ...]]
    size: int
    api: int
    end: bytes
    key: int
    version: int
    client_id: str | None

    def is_like(self, frame: Any) -> bool:
        """Whether the frame begins with such a header."""
        if len(frame) < self.size:
            return False
        api, _correlation_id, end = self.unpack(frame)
        is_same: bool = api == self.api and end == self.end
        return is_same


class ServerConnection:
    """The server's end of a connection: `served` has the versions of the listener, by API key."""

    __slots__ = ("_arrival_class", "_other", "_usual", "served", "unanswered")

    def __init__(
        self, served: Mapping[int, Versions], arrival_class: type[Arrival] = Arrival
    ) -> None:
        """`arrival_class` is a subclass with more fields; its constructor is not called."""
        self.served = served
        self._arrival_class = arrival_class
        self.unanswered: deque[Arrival] = deque()
        """Unanswered requests, oldest first; some have a response that waits for an earlier one."""
        self._usual: _Usual | None = None
        """The header of the last request."""
        self._other: _Usual | None = None
        """The header of the request before it: group members alternate heartbeats and commits."""

    @property
    def waiting(self) -> int:
        """The number of requests whose response does not exist yet, or waits for an earlier one."""
        return len(self.unanswered)

    def receive(self, frame: Any) -> Arrival:
        """Return the request in the frame. It must be answered, if only with `answer_nothing`."""
        usual = self._usual
        if usual is None or len(frame) < usual.size:
            return self._receive_other(frame)
        unpack, size, usual_api, usual_end, key, version, client_id = usual
        api, correlation_id, end = unpack(frame)
        if api != usual_api or end != usual_end:
            return self._receive_other(frame)
        arrival = _new(self._arrival_class)
        arrival.key = key
        arrival.version = version
        arrival.correlation_id = correlation_id
        arrival.client_id = client_id
        arrival.body = frame[size:]
        arrival.problem = arrival.frame = None
        self.unanswered.append(arrival)
        return arrival

    def _receive_other(self, frame: Any) -> Arrival:
        """Receive a request whose header is not like the last one."""
        self._usual, self._other = self._other, self._usual
        if self._usual is not None and self._usual.is_like(frame):
            return self.receive(frame)
        return self._receive_unusual(frame)

    def _receive_unusual(self, frame: Any) -> Arrival:
        """Receive a request whose header is like neither of the last two, or cannot be decoded."""
        if len(frame) < _START.size:
            raise MalformedMessage("frame too short for a request header", size=len(frame))
        key, version, correlation_id = _START.unpack_from(frame)
        arrival = _new(self._arrival_class)
        arrival.key, arrival.version, arrival.correlation_id = key, version, correlation_id
        arrival.client_id, arrival.body = None, frame[_START.size :]
        arrival.problem = arrival.frame = None
        served = self.served.get(key)
        if served is None:
            arrival.problem = Problem.UNKNOWN_API
        else:
            header, end = RequestHeader.decode_from(frame, 0, request_header_version(key, version))
            arrival.client_id = header.client_id
            arrival.body = frame[end:]
            if not served.first <= version <= served.last:
                arrival.problem = Problem.UNSUPPORTED_VERSION
            elif end <= _LONGEST_KNOWN_HEADER:
                self._usual = _usual_of(frame, end, arrival)
        self.unanswered.append(arrival)
        return arrival

    def answer(self, arrival: Arrival, response: Response) -> list[Any]:
        """Return the buffers to write now: this response and those it held up, or nothing yet."""
        version = arrival.version if arrival.problem is None else arrival.response_version
        body = response.encode_parts(version)
        header_version = response_header_version(arrival.key, version)
        return self._release(arrival, response_frame(arrival.correlation_id, header_version, body))

    def answer_nothing(self, arrival: Arrival) -> list[Any]:
        """Return the buffers to write now, after a request without response (acks=0)."""
        return self._release(arrival, [])

    def answer_unsupported_api_versions(self, arrival: Arrival) -> list[Any]:
        """Answer a newer client with error 35 and ApiVersions' own range; it can then ask again."""
        assert arrival.key == API_VERSIONS
        assert arrival.problem is Problem.UNSUPPORTED_VERSION
        first, last = self.served[API_VERSIONS]
        own = ApiVersion(api_key=API_VERSIONS, min_version=first, max_version=last)
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
        return self.answer(arrival, response)

    def _release(self, arrival: Arrival, frame: list[Any]) -> list[Any]:
        assert arrival.frame is None, "answered twice"
        arrival.frame = frame
        waiting = self.unanswered
        if waiting[0] is not arrival:
            return []
        waiting.popleft()
        ready = frame
        while waiting:
            later = waiting[0].frame
            if later is None:
                break
            ready += later
            waiting.popleft()
        return ready


class InFlight(NamedTuple):
    """A request that was sent and has no response yet."""

    correlation_id: int
    key: int
    version: int
    tag: object


class Answer(NamedTuple):
    """A response, with the request that it belongs to."""

    request: InFlight
    response: Response


class ClientConnection:
    """The client's end of a connection."""

    def __init__(self, client_id: str | None) -> None:
        self.client_id = client_id
        self.in_flight: deque[InFlight] = deque()
        self._next_correlation_id = 0
        self._header_ends = {version: _header_end(client_id, version) for version in (1, 2)}

    def send(
        self, request: Request, version: int, *, tag: object = None, expects_answer: bool = True
    ) -> list[Any]:
        """Return the buffers to write. `tag` comes back with the response; acks=0 has none."""
        codec = request._codec or type(request).codec
        key = codec.spec.key
        assert key is not None
        body = codec.encode_parts(request, version)
        correlation_id = self._next_correlation_id
        start = _START.pack(key, version, correlation_id)
        header = start + self._header_ends[request_header_version(key, version)]
        self._next_correlation_id = (
            0 if correlation_id == _LAST_CORRELATION_ID else correlation_id + 1
        )
        if expects_answer:
            self.in_flight.append(InFlight(correlation_id, key, version, tag))
        return request_frame(header, body)

    def receive(self, frame: Any, budget: int = ANSWER_BUDGET) -> Answer:
        """Return the response to the oldest request in flight; views in it share the frame's
        memory. A request whose response cannot be decoded stays in flight, and `lose` returns
        it."""
        if len(frame) < _CORRELATION.size:
            raise MalformedMessage("frame too short for a response header", size=len(frame))
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        if not self.in_flight:
            raise MalformedMessage("answer to no request", correlation_id=correlation_id)
        request = self.in_flight[0]
        if request.correlation_id != correlation_id:
            raise MalformedMessage(
                "answer to another request than the oldest in flight",
                correlation_id=correlation_id,
                expected=request.correlation_id,
            )
        response = self._decode(request, frame, budget)
        self.in_flight.popleft()
        return Answer(request, response)

    @staticmethod
    def _decode(request: InFlight, frame: Any, budget: int) -> Response:
        key, version = request.key, request.version
        cls = response_class(key)
        body = frame[_CORRELATION.size :]
        if response_header_version(key, version):
            if body and not body[0]:  # no tags, as nearly always
                body = body[1:]
            else:
                _header, position = ResponseHeader.decode_from(frame, 0, 1)
                body = frame[position:]
        elif key == API_VERSIONS and _is_unsupported(body):
            version = 0
        response: Response = (cls._codec or cls.codec).decode(body, version, budget)
        return response

    def lose(self) -> list[InFlight]:
        """Return the requests that will not be answered, oldest first: the connection is closed."""
        lost = list(self.in_flight)
        self.in_flight.clear()
        return lost


@cache
def _header_unpacker(size: int) -> Callable[[Any], tuple[Any, ...]]:
    """Return an unpacker of headers of that size: API and version in one, correlation id, rest."""
    return Struct(f">ii{size - _START.size}s").unpack_from


def _usual_of(frame: Any, size: int, arrival: Arrival) -> _Usual:
    unpack = _header_unpacker(size)
    api, _correlation_id, end = unpack(frame)
    return _shared(_Usual(unpack, size, api, end, arrival.key, arrival.version, arrival.client_id))


@lru_cache(_SHARED_HEADERS)
def _shared(usual: _Usual) -> _Usual:
    """Return one shared object for all connections: ten thousand idle ones have the same few."""
    return usual


def _header_end(client_id: str | None, version: int) -> bytes:
    """Return the part that all request headers of that version share: client id, and no tags."""
    header = RequestHeader(
        request_api_key=0, request_api_version=0, correlation_id=0, client_id=client_id
    )
    return header.encode(version)[_START.size :]


def _is_unsupported(body: Any) -> bool:
    """Whether ApiVersions failed with error 35; its response then has version 0 (KIP-511)."""
    return (
        len(body) >= _ERROR_CODE.size
        and _ERROR_CODE.unpack_from(body)[0] == ErrorCode.UNSUPPORTED_VERSION
    )
