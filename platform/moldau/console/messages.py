"""Reads the messages that a page shows: a part of a topic, oldest or newest first, or its tail.

Invariants: a request reads at most SCANNED_MAX records and for SCAN_S at most, so that a filter
that matches nothing ends, and says how far it came; of those that match it keeps SHOWN.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from moldau.client import Consumer
from moldau.client.serdes.contract import Place
from moldau.console.connection import Connection
from moldau.console.decoding import Decoder
from moldau.console.masks import Mask
from moldau.console.rendering import BadForm
from moldau.console.texts import SHOWN_BYTES, WHOLE, cut, text_of
from moldau.link.metadata import TopicPartition
from moldau.records import Headers
from moldau.runtime import Clock

SHOWN: Final = 50
SCANNED_MAX: Final = 20_000
SCAN_S: Final = 3.0
_POLL_S: Final = 0.5
FROMS: Final = ("newest", "oldest", "offset", "time")


@dataclass(frozen=True, slots=True)
class Message:
    """A record as text."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str
    value: str
    headers: tuple[tuple[str, str], ...]
    data: tuple[bytes | None, bytes | None]
    """The bytes of key and value, None for null."""

    @property
    def size_bytes(self) -> int:
        """How much key and value take."""
        return sum(len(each) for each in self.data if each is not None)

    @property
    def is_null(self) -> bool:
        """Whether it has no value: a tombstone."""
        return self.data[1] is None

    @property
    def is_exact(self) -> bool:
        """Whether a form can send key and value again as they are: all of them is text, with ends
        of lines that a browser keeps, and a key that is there has a line."""
        key, value = (bytes(each or b"") for each in self.data)
        is_text = self.key.encode() == key and self.value.encode() == value
        has_odd = b"\r" in value or any(sign in key for sign in b"\r\n")
        return is_text and not has_odd and b"\0" not in key + value and self.data[0] != b""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The fields of the form above the messages."""

    start: str = "newest"
    at: str = ""
    partition: str = ""
    text: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Wanted:
        """Return what a request asks for. Raise BadForm."""
        start = query.get("from", "newest")
        if start not in FROMS:
            raise BadForm(f"from: {', '.join(FROMS)}")
        at, partition = query.get("at", "").strip(), query.get("partition", "").strip()
        if start == "offset" and not at.isdecimal():
            raise BadForm("offset: give a whole number")
        if start == "time" and not at:
            raise BadForm("time: give one such as -1h or 2026-11-20T12:00:00Z")
        if partition and not partition.isdecimal():
            raise BadForm("partition: give a number, or none for all")
        return cls(start, at, partition, query.get("text", ""))

    def matches(self, message: Message) -> bool:
        """Whether the text stands in the key or the value."""
        return self.text in message.value or self.text in message.key


@dataclass(slots=True)
class Found:
    """The messages, and how much was read for them."""

    messages: list[Message] = field(default_factory=list)
    scanned: int = 0
    is_cut: bool = False
    """Whether reading stopped at the limit before the end of the part."""

    def keep(self, *, is_newest: bool) -> None:
        """Put the messages in their order, and drop those that are not shown."""
        self.messages.sort(key=lambda each: (each.timestamp_ms, each.offset), reverse=is_newest)
        del self.messages[SHOWN:]

    def to_copy(self, query: Mapping[str, str]) -> Message | None:
        """Return the message that the form is to be filled with, None without `copy`. Raise
        BadForm if its bytes are not all text."""
        if "copy" not in query:
            return None
        at = (query.get("partition"), query.get("at"))
        for each in self.messages:
            if (str(each.partition), str(each.offset)) == at:
                if not each.is_exact:
                    raise BadForm(
                        "this record is not plain text, too long or masked, so no form has it"
                    )
                return each
        return None


class Texts:
    """Makes texts of the keys, values and headers of one page. What the mask hides is in none."""

    def __init__(self, decoder: Decoder | None, mask: Mask | None = None) -> None:
        self._decoder = decoder
        self._mask = mask
        self._failed: dict[bytes, str] = {}

    async def text(self, data: bytes | None, place: Place) -> str:
        """Return a key or a value as text, decoded if there is a registry."""
        mask = self._mask
        if mask is None:
            return await self._decoded(data, place, SHOWN_BYTES)
        text = await self._decoded(data, place, WHOLE)  # a part of an object has no fields
        return cut(mask.key(text) if place.is_key else mask.value(text))

    async def _decoded(self, data: bytes | None, place: Place, most: int) -> str:
        if self._decoder is None:
            return text_of(data, most)
        return await self._decoder.text(data, place, self._failed, most)

    def headers(self, headers: Headers) -> tuple[tuple[str, str], ...]:
        """Return the headers as texts."""
        if self._mask is None:
            return tuple((name, text_of(data)) for name, data in headers)
        masked = self._mask.headers((name, text_of(data, WHOLE)) for name, data in headers)
        return tuple((name, cut(text)) for name, text in masked)


async def read(
    connection: Connection,
    clock: Clock,
    topic: str,
    indexes: Iterable[int],
    wanted: Wanted,
    mask: Mask | None,
) -> Found:
    """Return the messages that a page shows, in the order in which it shows them. A text is looked
    for in what the mask leaves."""
    places = [TopicPartition(topic, index) for index in chosen(indexes, wanted.partition)]
    async with connection.consumer() as consumer:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        begins = await consumer.beginning_offsets(places)
        await _seek(consumer, wanted, begins, ends)
        decode = Texts(connection.decoder, mask)
        return await _scan(consumer, clock, wanted, ends, decode)


def chosen(indexes: Iterable[int], partition: str) -> list[int]:
    """Return the partitions to read. Raise BadForm if there is no such one."""
    known = list(indexes)
    if not partition:
        return known
    if int(partition) not in known:
        raise BadForm(f"partition: the topic has {len(known)}, from 0 to {len(known) - 1}")
    return [int(partition)]


async def _seek(
    consumer: Consumer[bytes, bytes],
    wanted: Wanted,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    if wanted.start == "time":
        try:
            await consumer.seek_to_time(wanted.at, list(ends))
        except ValueError as error:
            raise BadForm(f"time: {error}") from error
        return
    back = SHOWN if not wanted.text else SCANNED_MAX // max(1, len(ends))
    for place, end in ends.items():
        begin = begins[place]
        if wanted.start == "newest":
            begin = max(begin, end - back)
        elif wanted.start == "offset":
            begin = min(max(begin, int(wanted.at)), end)
        consumer.seek(place, begin)


async def _scan(
    consumer: Consumer[bytes, bytes],
    clock: Clock,
    wanted: Wanted,
    ends: Mapping[TopicPartition, int],
    decode: Texts,
) -> Found:
    found, until = Found(), clock.monotonic() + SCAN_S
    while True:
        left = [p for p, end in ends.items() if (consumer.position(p) or 0) < end]
        if not left:
            return found
        is_full = wanted.start != "newest" and len(found.messages) >= SHOWN
        if is_full:
            return found
        if found.scanned >= SCANNED_MAX or clock.monotonic() > until:
            found.is_cut = True
            return found
        for message in await _polled(consumer, decode, left):
            found.scanned += 1
            end = ends[TopicPartition(left[0].topic, message.partition)]
            if message.offset < end and wanted.matches(message):
                found.messages.append(message)
        found.keep(is_newest=wanted.start == "newest")


async def tail(
    connection: Connection,
    topic: str,
    indexes: Iterable[int],
    wanted: Wanted,
    mask: Mask | None,
) -> AsyncGenerator[list[Message]]:
    """Yield new messages as they come, and an empty list at least twice a second."""
    places = [TopicPartition(topic, index) for index in chosen(indexes, wanted.partition)]
    async with connection.follower() as consumer:
        consumer.assign(places)
        for place, end in (await consumer.end_offsets(places)).items():
            consumer.seek(place, end)
        yield []
        decode = Texts(connection.decoder, mask)
        while True:
            came = await _polled(consumer, decode, None)
            yield [each for each in came if wanted.matches(each)]


async def _polled(
    consumer: Consumer[bytes, bytes], decode: Texts, places: list[TopicPartition] | None
) -> list[Message]:
    found = []
    for part in await consumer.poll(_POLL_S, max_records=500, partitions=places):
        for each in part.records:
            key, value = each.key, each.value
            found.append(
                Message(
                    partition=part.partition,
                    offset=each.offset,
                    timestamp_ms=each.timestamp,
                    key=await decode.text(key, Place(part.topic, True, each.headers)),
                    value=await decode.text(value, Place(part.topic, False, each.headers)),
                    headers=decode.headers(each.headers),
                    data=(key, value),
                )
            )
    return found
