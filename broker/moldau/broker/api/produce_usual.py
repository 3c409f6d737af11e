"""Produce requests that are like an earlier one, read and answered without the codec.

A producer sends one batch after another to the partitions of a few topics. The bytes of such
requests before the partitions of each topic are the same, and so are those of the answers but for
the partitions and their offsets. So the first request of a kind is decoded, and leaves its
`Outline`; the next ones are recognised by those bytes. librdkafka sends one batch in a request,
Java's producer one of each partition that has any, in another order each time.

Invariants:
* An outline is used only for bytes that the codec decodes to the same fields: they are equal up to
  the partitions of each topic, and the rest is rows of a partition, its batch, and empty tags.
* The bytes of an answer are those that the codec writes for it. Both are compared in tests.
* Outlines depend on nothing but bytes, so all brokers of a process share them. Their number is
  bounded, because clients choose the bytes; and one is kept only of a request that was appended.

This is no second codec: what it knows of the layout is that the topics are the last field of a
request, each with its name or id, the number of its partitions, and their batches in a row each
(`produced_batches`), and that an answer has an error code and three offsets behind each partition.
The rest is learned from what the codec writes.
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
"""The most batches of a topic, and the most topics: their number is one byte."""
SEVERAL_MAX: Final = 1024
"""How many outlines there are, at most, when one of several topics is kept: with many topics, whose
partitions differ each time, hardly two requests are alike."""
ROW_VALUES: Final = 5
"""The number of values of a batch in a `UsualAnswer`."""
_FIRST_VERSION: Final = 9
"""The first version with compact lengths and tags."""
_LAST_VERSION: Final = 13
_TOPIC_IDS_SINCE: Final = 13
_TOPICS_AT: Final = 8
"""The first topic. The byte before it is one more than their number."""
_ID_BYTES: Final = 17
"""A topic's id, and a byte that is one more than the number of its partitions."""
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
        *("acks", "before", "count", "is_by_id", "keys", "middle", "pack", "tail"),
        *("timeout_ms", "topics"),
    )

    def __init__(self, message: ProduceRequest, version: int) -> None:
        self.topics: list[tuple[str, bytes, int]] = [
            (each.name, each.topic_id, len(each.partition_data)) for each in message.topic_data
        ]
        """The name and id of each topic, one of which counts, and the number of its batches."""
        self.keys: list[str | bytes] = []
        """The name or id of the topic of each batch."""
        for name, topic_id, count in self.topics:
            self.keys += [name or topic_id] * count
        self.count = self.topics[0][2]
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
        responses = [
            TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[answer] * count)
            for name, topic_id, count in self.topics
        ]
        response = ProduceResponse(responses=responses, throttle_time_ms=_THROTTLE_MARK)
        *before, end = response.encode(version).rsplit(_ROW, len(self.keys))
        self.before = before
        """The bytes of an answer before each row."""
        self.middle, _, self.tail = end.partition(_THROTTLE)
        rows = "".join(f"{len(each)}si2xqqq" for each in before)
        self.pack = Struct(f">{rows}{len(self.middle)}si{len(self.tail)}s").pack

    def place(self, number: int) -> tuple[str, bytes]:
        """Return the name and id of the topic of a batch."""
        for name, topic_id, count in self.topics:
            if number < count:
                return name, topic_id
            number -= count
        raise AssertionError("there are fewer batches")


Batches: TypeAlias = list[tuple[int, memoryview]]
"""The partitions of a request, each with its batch."""
Usual: TypeAlias = tuple[Outline, Batches]


class UsualAnswer:
    """The response to batches that were appended. It has what `ApiRequest.answer` uses of one."""

    __slots__ = ("_outline", "_rows", "throttle_time_ms")

    def __init__(self, outline: Outline, rows: list[Any]) -> None:
        """`rows` has `ROW_VALUES` for each batch: the bytes before it (`before` of the outline),
        partition, base offset, append time, and log start offset."""
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
    if not known or type(body) is not memoryview or len(body) <= _TOPICS_AT:
        return None
    at = _TOPICS_AT + (_ID_BYTES if version >= _TOPIC_IDS_SINCE else body[_TOPICS_AT] + 1)
    outline = known.get(bytes(body[:at]))
    if outline is None:
        return _outlined_topics(known, body, version) if body[_TOPICS_AT - 1] > 2 else None
    found = produced_batches(body, at, outline.count)
    if found is None:
        return None
    batches, end = found
    return None if body[end] or end + 1 != len(body) else (outline, batches)


def _outlined_topics(known: dict[bytes, Outline], body: memoryview, version: int) -> Usual | None:
    """Return what `outlined` returns for a request of several topics."""
    starts: list[memoryview] = []
    batches: Batches = []
    start, position = 0, _TOPICS_AT
    for _ in range(body[_TOPICS_AT - 1] - 1):
        at = position + (_ID_BYTES if version >= _TOPIC_IDS_SINCE else body[position] + 1)
        if at > len(body):
            return None
        starts.append(body[start:at])
        found = produced_batches(body, at, body[at - 1] - 1)
        if found is None:
            return None
        rows, start = found
        batches += rows
        position = start
    if body[position] or position + 1 != len(body):
        return None
    outline = known.get(b"".join(starts))
    return None if outline is None else (outline, batches)


def learn(message: ProduceRequest, body: Any, version: int) -> None:
    """Keep the outline of a request whose batches were appended, if it is of a usual kind."""
    known = _outlines.get(version)
    topics = message.topic_data
    if known is None or message.transactional_id is not None or type(body) is not memoryview:
        return
    if not 0 < len(topics) <= BATCHES_MAX or (len(topics) > 1 and len(known) >= SEVERAL_MAX):
        return
    if not all(0 < len(each.partition_data) <= BATCHES_MAX for each in topics):
        return
    start = _start_of(message, version)
    if start in known:
        return
    if len(known) >= OUTLINES_MAX:
        known.clear()
    known[start] = Outline(message, version)


def _start_of(message: ProduceRequest, version: int) -> bytes:
    """Return the bytes before the partitions of each topic, as the codec writes them."""
    empty = PartitionProduceData(index=0, records=b"")
    starts, skipped = [], 0
    for each in message.topic_data:
        count = len(each.partition_data)
        data = TopicProduceData(
            name=each.name, topic_id=each.topic_id, partition_data=[empty] * count
        )
        encoded = ProduceRequest(
            acks=message.acks, timeout_ms=message.timeout_ms, topic_data=[data]
        ).encode(version)
        starts.append(encoded[skipped : -count * _EMPTY_ROW_BYTES - _END_BYTES])
        skipped = _TOPICS_AT
    first = bytearray(starts[0])
    first[_TOPICS_AT - 1] = len(starts) + 1
    return b"".join((first, *starts[1:]))
