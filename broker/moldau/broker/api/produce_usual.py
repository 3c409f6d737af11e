"""Produce requests that are like an earlier one, read and answered without the codec.

A producer sends one batch after another to the same partitions. The bytes of such requests up to
the records are the same, and so are those of the answers but for the offsets. So the first request
of a kind is decoded, and leaves its `Outline`; the next ones are recognised by their first bytes.

Invariants:
* An outline is used only for bytes that the codec decodes to the same fields: they are equal up to
  the length of the records, and behind the records there is nothing but empty tags.
* The bytes of an answer are those that the codec writes for it. Both are compared in tests.
* Outlines depend on nothing but bytes, so all brokers of a process share them. Their number is
  bounded, because clients choose the bytes; and one is kept only of a request that was appended.

This is no second codec: what it knows of the layout is that the records are the last field of a
request and only tags follow, and that an answer has its three offsets in a row. The rest is learned
from what the codec writes.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final, TypeAlias

from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.records import HEADER_BYTES

OUTLINES_MAX: Final = 4096
"""How many are kept of each version. A node with more partitions decodes the requests of some."""
_FIRST_VERSION: Final = 9
"""The first version with compact lengths and tags."""
_LAST_VERSION: Final = 13
_TOPIC_IDS_SINCE: Final = 13
_NAME_AT: Final = 8
_START_BYTES: Final = 13
"""The bytes before the records, beside those of the topic's name."""
_START_BYTES_WITH_ID: Final = 29
_NO_TAGS: Final = b"\0\0\0"
"""The tags of the partition, the topic and the request."""
_EMPTY_RECORDS: Final = b"\1" + _NO_TAGS
_SHORTEST_REQUEST: Final = _START_BYTES_WITH_ID + HEADER_BYTES
_THREE_MARKS: Final = (0x0102030405060708, 0x1112131415161718, 0x2122232425262728)
_MARKS: Final = Struct(">qqq").pack(*_THREE_MARKS)
_THROTTLE_MARK: Final = 0x31323334
_THROTTLE: Final = Struct(">i").pack(_THROTTLE_MARK)
_next_four = Struct("<I").unpack_from


class Outline:
    """All that requests of a kind have in common: their fields but for the records, and the bytes
    of their answers."""

    __slots__ = (
        *("acks", "index", "is_by_id", "middle", "pack", "start", "tail"),
        *("timeout_ms", "topic", "topic_id", "topic_key"),
    )

    def __init__(self, message: ProduceRequest, version: int) -> None:
        (topic,) = message.topic_data
        (data,) = topic.partition_data
        self.topic: str = topic.name
        self.topic_id: bytes = topic.topic_id
        self.topic_key = topic.name or topic.topic_id
        self.index: int = data.index
        self.acks: int = message.acks
        self.timeout_ms: int = message.timeout_ms
        self.is_by_id = version >= _TOPIC_IDS_SINCE
        base_offset, append_time_ms, log_start_offset = _THREE_MARKS
        answer = PartitionProduceResponse(
            index=data.index,
            error_code=0,
            base_offset=base_offset,
            log_append_time_ms=append_time_ms,
            log_start_offset=log_start_offset,
        )
        of_topic = TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[answer]
        )
        response = ProduceResponse(responses=[of_topic], throttle_time_ms=_THROTTLE_MARK)
        self.start, _, rest = response.encode(version).rpartition(_MARKS)
        self.middle, _, self.tail = rest.partition(_THROTTLE)
        sizes = len(self.start), len(self.middle), len(self.tail)
        self.pack = Struct(">{}sqqq{}si{}s".format(*sizes)).pack


Usual: TypeAlias = tuple[Outline, memoryview]
"""The outline of a request, and its records."""


class UsualAnswer:
    """The response to a batch that was appended. It has what `ApiRequest.answer` uses of one."""

    __slots__ = ("_append_time_ms", "_base_offset", "_log_start", "_outline", "throttle_time_ms")

    def __init__(
        self, outline: Outline, base_offset: int, append_time_ms: int, log_start_offset: int
    ) -> None:
        self._outline = outline
        self._base_offset = base_offset
        self._append_time_ms = append_time_ms
        self._log_start = log_start_offset
        self.throttle_time_ms = 0

    def encode_parts(self, version: int) -> list[bytes]:
        """Return what `Response.encode_parts` returns. `version` is that of the outline."""
        outline = self._outline
        return [
            outline.pack(
                outline.start,
                self._base_offset,
                self._append_time_ms,
                self._log_start,
                outline.middle,
                self.throttle_time_ms,
                outline.tail,
            )
        ]


_outlines: Final[dict[int, dict[bytes, Outline]]] = {
    version: {} for version in range(_FIRST_VERSION, _LAST_VERSION + 1)
}
"""By version, and by the bytes before the records."""


def outlined(body: Any, version: int) -> Usual | None:
    """Return the outline of a request and its records, or None if it is not known, or not of this
    kind. The records are at least as long as a batch's header."""
    known = _outlines.get(version)
    if not known or type(body) is not memoryview or len(body) < _SHORTEST_REQUEST:
        return None
    at = _START_BYTES_WITH_ID if version >= _TOPIC_IDS_SINCE else _START_BYTES + body[_NAME_AT]
    outline = known.get(bytes(body[:at]))
    if outline is None or len(body) < at + HEADER_BYTES:
        return None
    # The length is a varint; one of four bytes or more is left to the codec.
    (four,) = _next_four(body, at)
    if not four & 0x80:
        size, at = four & 0x7F, at + 1
    elif not four & 0x8000:
        size, at = four & 0x7F | four >> 1 & 0x3F80, at + 2
    elif not four & 0x800000:
        size, at = four & 0x7F | four >> 1 & 0x3F80 | four >> 2 & 0x1FC000, at + 3
    else:
        return None
    end = at + size - 1
    is_whole = size > HEADER_BYTES and end + len(_NO_TAGS) == len(body)
    if not is_whole or bytes(body[end:]) != _NO_TAGS:
        return None
    return outline, body[at:end]


def learn(message: ProduceRequest, body: Any, version: int) -> None:
    """Keep the outline of a request whose one batch was appended, if it is of a usual kind."""
    known = _outlines.get(version)
    if known is None or message.transactional_id is not None or len(message.topic_data) != 1:
        return
    (topic,) = message.topic_data
    if type(body) is not memoryview or len(topic.partition_data) != 1:
        return
    start = _start_of(message, version)
    if start in known or bytes(body[: len(start)]) != start:
        return
    if len(known) >= OUTLINES_MAX:
        known.clear()
    known[start] = Outline(message, version)


def _start_of(message: ProduceRequest, version: int) -> bytes:
    """Return the bytes before the records, as the codec writes them."""
    (topic,) = message.topic_data
    empty = PartitionProduceData(index=topic.partition_data[0].index, records=b"")
    data = TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[empty])
    request = ProduceRequest(
        acks=message.acks, timeout_ms=message.timeout_ms, topic_data=[data]
    ).encode(version)
    assert request.endswith(_EMPTY_RECORDS)
    return request[: -len(_EMPTY_RECORDS)]
