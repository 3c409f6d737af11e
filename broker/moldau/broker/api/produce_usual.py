"""Produce requests that are like an earlier one, read and answered without the codec.

A producer sends one batch after another to the partitions of a topic. The bytes of such requests
before the first partition are the same, and so are those of the answers but for the partitions and
their offsets. So the first request of a kind is decoded, and leaves its `Outline`; the next ones
are recognised by their first bytes. librdkafka sends one batch in a request, Java's producer one of
each partition that has any, in another order each time.

Invariants:
* An outline is used only for bytes that the codec decodes to the same fields: they are equal up to
  the first partition, and the rest is rows of a partition, its batch, and empty tags.
* The bytes of an answer are those that the codec writes for it. Both are compared in tests.
* Outlines depend on nothing but bytes, so all brokers of a process share them. Their number is
  bounded, because clients choose the bytes; and one is kept only of a request that was appended.

This is no second codec: what it knows of the layout is that the partitions of a topic are the last
field of a request, with their batches in a row each (`produced_batches`), and that an answer has
an error code and three offsets behind each partition. The rest is learned from what the codec
writes.
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
from moldau.records.kernel import produced_batches

OUTLINES_MAX: Final = 4096
"""How many are kept of each version."""
BATCHES_MAX: Final = 126
"""The most batches of a request: their number is one byte."""
ROW_VALUES: Final = 5
"""The number of values of a batch in a `UsualAnswer`."""
_FIRST_VERSION: Final = 9
"""The first version with compact lengths and tags."""
_LAST_VERSION: Final = 13
_TOPIC_IDS_SINCE: Final = 13
_NAME_AT: Final = 8
_START_BYTES: Final = 9
"""The bytes before the first partition, beside those of the topic's name."""
_START_BYTES_WITH_ID: Final = 25
_EMPTY_ROW_BYTES: Final = 6
_END_BYTES: Final = 2
"""The tags of the topic and the request."""
_MARKS: Final = 0x01020304, 0, 0x0102030405060708, 0x1112131415161718, 0x2122232425262728
"""Of a row of an answer: partition, error code, and three offsets."""
_ROW: Final = Struct(">ihqqq").pack(*_MARKS)
_THROTTLE_MARK: Final = 0x31323334
_THROTTLE: Final = Struct(">i").pack(_THROTTLE_MARK)


class Outline:
    """All that requests of a kind have in common: their fields but for the partitions and batches,
    and the bytes of their answers."""

    __slots__ = (
        *("acks", "before_next", "count", "is_by_id", "middle", "pack", "start", "tail"),
        *("timeout_ms", "topic", "topic_id", "topic_key"),
    )

    def __init__(self, message: ProduceRequest, version: int) -> None:
        (topic,) = message.topic_data
        self.topic: str = topic.name
        self.topic_id: bytes = topic.topic_id
        self.topic_key = topic.name or topic.topic_id
        self.count = count = len(topic.partition_data)
        self.acks: int = message.acks
        self.timeout_ms: int = message.timeout_ms
        self.is_by_id = version >= _TOPIC_IDS_SINCE
        index, error_code, base_offset, append_time_ms, log_start_offset = _MARKS
        answer = PartitionProduceResponse(
            index=index,
            error_code=error_code,
            base_offset=base_offset,
            log_append_time_ms=append_time_ms,
            log_start_offset=log_start_offset,
        )
        of_topic = TopicProduceResponse(
            name=topic.name, topic_id=topic.topic_id, partition_responses=[answer] * count
        )
        response = ProduceResponse(responses=[of_topic], throttle_time_ms=_THROTTLE_MARK)
        start, *between, end = response.encode(version).rsplit(_ROW, count)
        self.start = start
        self.before_next = between[0] if between else b""
        self.middle, _, self.tail = end.partition(_THROTTLE)
        rows = f"{len(start)}si2xqqq" + f"{len(self.before_next)}si2xqqq" * (count - 1)
        self.pack = Struct(f">{rows}{len(self.middle)}si{len(self.tail)}s").pack


Batches: TypeAlias = list[tuple[int, memoryview]]
"""The partitions of a request, each with its batch."""
Usual: TypeAlias = tuple[Outline, Batches]


class UsualAnswer:
    """The response to batches that were appended. It has what `ApiRequest.answer` uses of one."""

    __slots__ = ("_outline", "_rows", "throttle_time_ms")

    def __init__(self, outline: Outline, rows: list[Any]) -> None:
        """`rows` has `ROW_VALUES` for each batch: the bytes before it (`start` of the outline, then
        `before_next`), partition, base offset, append time, and log start offset."""
        self._outline = outline
        self._rows = rows
        self.throttle_time_ms = 0

    def encode_parts(self, version: int) -> list[bytes]:
        """Return what `Response.encode_parts` returns. `version` is that of the outline."""
        outline = self._outline
        return [outline.pack(*self._rows, outline.middle, self.throttle_time_ms, outline.tail)]


_outlines: Final[dict[int, dict[bytes, Outline]]] = {
    version: {} for version in range(_FIRST_VERSION, _LAST_VERSION + 1)
}
"""By version, and by the bytes before the first partition."""


def outlined(body: Any, version: int) -> Usual | None:
    """Return the outline of a request and its batches, or None if it is not known, or not of this
    kind. The batches are at least as long as a header, and belong to no transaction."""
    known = _outlines.get(version)
    if not known or type(body) is not memoryview or len(body) <= _NAME_AT:
        return None
    at = _START_BYTES_WITH_ID if version >= _TOPIC_IDS_SINCE else _START_BYTES + body[_NAME_AT]
    outline = known.get(bytes(body[:at]))
    if outline is None:
        return None
    batches = produced_batches(body, at, outline.count)
    return None if batches is None else (outline, batches)


def learn(message: ProduceRequest, body: Any, version: int) -> None:
    """Keep the outline of a request whose batches were appended, if it is of a usual kind."""
    known = _outlines.get(version)
    if known is None or message.transactional_id is not None or len(message.topic_data) != 1:
        return
    if type(body) is not memoryview:
        return
    if not 0 < len(message.topic_data[0].partition_data) <= BATCHES_MAX:
        return
    start = _start_of(message, version)
    if start in known or bytes(body[: len(start)]) != start:
        return
    if len(known) >= OUTLINES_MAX:
        known.clear()
    known[start] = Outline(message, version)


def _start_of(message: ProduceRequest, version: int) -> bytes:
    """Return the bytes before the first partition, as the codec writes them."""
    (topic,) = message.topic_data
    count = len(topic.partition_data)
    empty = PartitionProduceData(index=0, records=b"")
    data = TopicProduceData(
        name=topic.name, topic_id=topic.topic_id, partition_data=[empty] * count
    )
    request = ProduceRequest(
        acks=message.acks, timeout_ms=message.timeout_ms, topic_data=[data]
    ).encode(version)
    return request[: -count * _EMPTY_ROW_BYTES - _END_BYTES]
