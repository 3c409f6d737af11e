"""Bytes of a connection: frames, headers, and what is in them, at both ends.

`requests`: one byte chooses how the stream is cut into pieces; whatever the cut and the size of the
receive buffer, the same frames must come out, and they are those that plain slicing gives. A server
then takes each frame and decodes the request in it.

`responses`: the stream answers requests that a client has sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

from moldau.errors import MalformedMessage
from moldau.protocol.connection import ClientConnection, Problem, ServerConnection
from moldau.protocol.declare import Request
from moldau.protocol.framing import FrameReader
from moldau.protocol.messages import API, request_class, response_class
from moldau.protocol.versions import Versions
from tests.fuzz.corpus import Input
from tests.fuzz.messages import full
from tests.fuzz.target import MEBIBYTE, Finding, Target

FRAME_BYTES_MAX = 64 * 1024
BUDGET = MEBIBYTE
SHARED_BYTES = (5, 64, 4096)
ASKED = (18, 3, 1, 0, 18)  # ApiVersions, Metadata, Fetch, Produce, ApiVersions
CHUNK_BYTES = (1, 2, 3, 5, 60, 1000)


def requests(data: bytes) -> None:
    stream = data[1:]
    frames, refusal = _cut_plainly(stream)
    for shared in SHARED_BYTES:
        given, refused = _cut(stream, shared, Random(data[0] if data else 0))
        if given != frames:
            raise Finding(f"{len(given)} frames through {shared} bytes, not {len(frames)}")
        if (refused is None) != (refusal is None):
            raise Finding(f"a frame's size: {refused} through {shared} bytes, not {refusal}")
    server = ServerConnection(_served())
    for frame in frames:
        arrival = server.receive(memoryview(frame))
        if arrival.problem is None:
            arrival.decode(BUDGET)
            server.answer_nothing(arrival)
        elif arrival.key == 18 and arrival.problem is Problem.UNSUPPORTED_VERSION:
            _check_told_versions(server.answer_unsupported_api_versions(arrival))
        else:
            server.answer_nothing(arrival)
    if refusal is not None:
        raise refusal


def responses(data: bytes) -> None:
    client = ClientConnection("fuzz")
    for key in ASKED:
        cls = request_class(key)
        version = cls.spec.stable_versions.last
        client.send(full(cls, version), version)
    frames, refusal = _cut_plainly(data)
    for frame in frames:
        client.receive(memoryview(frame), BUDGET)
    if refusal is not None:
        raise refusal


def _check_told_versions(frame: list[bytes]) -> None:
    body = b"".join(bytes(part) for part in frame)[8:]
    response_class(18).decode(body, 0)


def _cut(stream: bytes, shared: int, random: Random) -> tuple[list[bytes], MalformedMessage | None]:
    """The frames that a reader makes of the stream when it comes in pieces."""
    reader = FrameReader(memoryview(bytearray(shared)), FRAME_BYTES_MAX)
    frames: list[bytes] = []
    position = 0
    while position < len(stream):
        buffer = reader.get_buffer()
        if not len(buffer):
            raise Finding("no room for the next bytes")
        count = min(random.choice(CHUNK_BYTES), len(buffer), len(stream) - position)
        buffer[:count] = stream[position : position + count]
        position += count
        try:
            frames += (bytes(frame) for frame in reader.received(count))
        except MalformedMessage as error:
            return frames, error
    return frames, None


def _cut_plainly(stream: bytes) -> tuple[list[bytes], MalformedMessage | None]:
    """The same by slicing: the judge of the reader."""
    frames: list[bytes] = []
    position = 0
    while len(stream) - position >= 4:
        size = int.from_bytes(stream[position : position + 4], "big", signed=True)
        if not 0 <= size <= FRAME_BYTES_MAX:
            return frames, MalformedMessage("no size of a frame", size=size)
        if len(stream) - position - 4 < size:
            break
        frames.append(stream[position + 4 : position + 4 + size])
        position += 4 + size
    return frames, None


@cache
def _served() -> dict[int, Versions]:
    """All APIs in all stable versions."""
    found = {key: request_class(key).spec.stable_versions for key in API}
    return {key: versions for key, versions in found.items() if versions}


def request_seeds() -> Iterator[Input]:
    client = ClientConnection("fuzz")
    sent = []
    for key, versions in sorted(_served().items()):
        for version in sorted({versions.first, versions.last}):
            parts = client.send(_request(key, version), version)
            frame = b"".join(bytes(part) for part in parts)
            sent.append(frame)
            if key in ASKED or key % 10 == 0:
                yield f"request-{key}-{version}", bytes([version]) + frame
    yield "pipelined", b"\x05" + b"".join(sent[:8])
    yield "incomplete", b"\x03" + sent[0] + sent[1][:-3]
    yield "size-negative", b"\0\xff\xff\xff\xff"
    yield "size-large", b"\x01" + sent[0] + b"\x7f\xff\xff\xff\0\0"
    yield "size-zero", b"\x02\0\0\0\0"
    yield "header-short", b"\x02" + _framed(b"\0\x12\0\x03")
    yield "api-unknown", b"\x02" + _framed(b"\x7f\0\0\0\0\0\0\x01")
    yield "api-versions-too-new", b"\x02" + _framed(b"\0\x12\x7f\xff\0\0\0\x01\xff\xff\0")
    yield "client-id-long", b"\x02" + _framed(b"\0\x03\0\x0c\0\0\0\x01\x7f\xffx\0")
    yield "header-tags", b"\x02" + _framed(b"\0\x12\0\x03\0\0\0\x01\0\x01x\x02\x09\x01a\x09\x01b")


def response_seeds() -> Iterator[Input]:
    answers = []
    for correlation_id, key in enumerate(ASKED):
        cls = response_class(key)
        version = request_class(key).spec.stable_versions.last
        header = correlation_id.to_bytes(4, "big") + (b"" if key == 18 else b"\0")
        answers.append(_framed(header + full(cls, version).encode(version)))
    for count in range(1, len(answers) + 1):
        yield f"answers-{count}", b"".join(answers[:count])
    old = full(response_class(18), 0)
    old.error_code = 35
    yield "api-versions-refused", _framed(b"\0\0\0\0" + old.encode(0))
    yield "answer-to-another", answers[1]
    yield "answer-to-nothing", b"".join(answers) + answers[0]
    yield "answer-short", _framed(b"\0\0")
    yield "answer-cut", answers[0] + _framed(answers[1][4:-7])


def _request(key: int, version: int) -> Request:
    request: Request = full(request_class(key), version)
    return request


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


REQUESTS = Target("requests", requests, (MalformedMessage,), request_seeds)
RESPONSES = Target("responses", responses, (MalformedMessage,), response_seeds)
