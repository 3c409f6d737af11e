"""Reads the messages that a page shows: a part of a topic, oldest or newest first, or its tail.

The newest ones are read in windows, from the end back: where a log was compacted, or has the marks
of transactions, a window has fewer records than offsets.

Invariants: a request reads at most SCANNED_MAX records and for SCAN_S at most, so that a filter
that matches nothing ends, and says how far it came; of those that match it keeps SHOWN. A text is
looked for in whole messages, also where a page shows the beginning of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from moldau.client import Consumer
from moldau.client.serdes.contract import Place
from moldau.console.access.masks import Mask
from moldau.console.connection import Connection
from moldau.console.pages.decoding import Decoder
from moldau.console.pages.encoding import are_exact
from moldau.console.pages.rendering import BadForm
from moldau.console.pages.texts import SHOWN_BYTES, WHOLE, cut, text_of
from moldau.link.metadata import Topic, TopicPartition
from moldau.records import Headers
from moldau.runtime import Clock

SHOWN: Final = 50
SCANNED_MAX: Final = 20_000
SCAN_S: Final = 3.0
_POLL_S: Final = 0.5
_WIDER: Final = 4
"""How many times as wide as the window before it the next one is."""
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
    has_exact_headers: bool = True
    """Whether a form can send the headers again as they are."""

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

    def shown(self) -> Message:
        """Return it with as much of its texts as a page shows."""
        return replace(self, key=cut(self.key), value=cut(self.value))


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """The fields of the form above the messages."""

    start: str = "newest"
    at: str = ""
    partition: str = ""
    text: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> MessageQuery:
        """Return what a request asks for. Raise BadForm."""
        found, problem = cls.read(query)
        if problem:
            raise BadForm(problem)
        return found

    @classmethod
    def read(cls, query: Mapping[str, str]) -> tuple[MessageQuery, str]:
        """Return what a request asks for, and what is wrong with it, or an empty text."""
        found = cls(
            query.get("from", "newest"),
            query.get("at", "").strip(),
            query.get("partition", "").strip(),
            query.get("text", ""),
        )
        return found, found._problem()

    def _problem(self) -> str:
        if self.start not in FROMS:
            return f"from: {', '.join(FROMS)}"
        if self.start == "offset" and not self.at.isdecimal():
            return "offset: give a whole number"
        if self.start == "time" and not self.at:
            return "time: give one such as -1h or 2026-11-20T12:00:00Z"
        if self.partition and not self.partition.isdecimal():
            return "partition: give a number, or none for all"
        return ""

    def matches(self, message: Message) -> bool:
        """Whether the text stands in the key or the value."""
        return self.text in message.value or self.text in message.key


@dataclass(slots=True)
class FoundMessages:
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

    def __init__(self, decoder: Decoder | None, mask: Mask | None, *, whole: bool) -> None:
        """`whole` is whether keys and values are not cut: a text is looked for in them."""
        self._decoder = decoder
        self._mask = mask
        # Of a part of an object no field can be masked.
        self._most = WHOLE if whole or mask is not None else SHOWN_BYTES
        self._failed: dict[bytes, str] = {}

    async def text(self, data: bytes | None, place: Place) -> str:
        """Return a key or a value as text, decoded if there is a registry."""
        text = await self._decoded(data, place, self._most)
        mask = self._mask
        if mask is None:
            return text
        return mask.key(text) if place.is_key else mask.value(text)

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
    wanted: MessageQuery,
    mask: Mask | None,
) -> FoundMessages:
    """Return the messages that a page shows, in the order in which it shows them. A text is looked
    for in what the mask leaves."""
    places = [TopicPartition(topic, index) for index in chosen(indexes, wanted.partition)]
    async with connection.consumer() as consumer:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        begins = await consumer.beginning_offsets(places)
        decode = Texts(connection.decoder, mask, whole=bool(wanted.text))
        scan = _Scan(consumer, clock, wanted, decode)
        if wanted.start == "newest":
            await scan.back_from(ends, begins)
        else:
            await _seek(consumer, wanted, begins, ends)
            await scan.up_to(ends)
        return scan.found


def chosen(indexes: Iterable[int], partition: str) -> list[int]:
    """Return the partitions to read. Raise BadForm if there is no such one."""
    known = list(indexes)
    if not partition:
        return known
    if int(partition) not in known:
        raise BadForm(f"partition: the topic has {len(known)}, from 0 to {len(known) - 1}")
    return [int(partition)]


def readable(topic: Topic, partition: str) -> tuple[list[int], list[int]]:
    """Return the partitions to read if all are wanted, and those that are left out as they have no
    leader. One that is named is read in any case, so that the failure tells why it cannot be."""
    known = [each.index for each in topic.partitions]
    gone = [each.index for each in topic.partitions if each.leader < 0 and not partition]
    return [each for each in known if each not in gone], gone


async def _seek(
    consumer: Consumer[bytes, bytes],
    wanted: MessageQuery,
    begins: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
) -> None:
    if wanted.start == "time":
        try:
            await consumer.seek_to_time(wanted.at, list(ends))
        except ValueError as error:
            raise BadForm(f"time: {error}") from error
        return
    for place, end in ends.items():
        begin = begins[place]
        if wanted.start == "offset":
            begin = min(max(begin, int(wanted.at)), end)
        consumer.seek(place, begin)


class _Scan:
    """One reading of a part of a topic."""

    def __init__(
        self, consumer: Consumer[bytes, bytes], clock: Clock, wanted: MessageQuery, decode: Texts
    ) -> None:
        self.found = FoundMessages()
        self._consumer = consumer
        self._clock = clock
        self._wanted = wanted
        self._decode = decode
        self._until = clock.monotonic() + SCAN_S
        self._matching = Counter[int]()
        """How many messages of each partition match."""

    @property
    def _is_over(self) -> bool:
        return self.found.scanned >= SCANNED_MAX or self._clock.monotonic() > self._until

    async def back_from(
        self, ends: Mapping[TopicPartition, int], begins: Mapping[TopicPartition, int]
    ) -> None:
        """Read back from these offsets, until each partition has as many matches as are shown."""
        above, width = dict(ends), SHOWN
        while above:
            below = {place: max(begins[place], end - width) for place, end in above.items()}
            for place, begin in below.items():
                self._consumer.seek(place, begin)
            await self.up_to(above)
            above = {
                place: begin
                for place, begin in below.items()
                if begin > begins[place] and self._matching[place.partition] < SHOWN
            }
            if above and (self.found.is_cut or self._is_over):
                self.found.is_cut = True
                return
            most = (SCANNED_MAX - self.found.scanned) // max(1, len(above))
            width = max(1, min(width * _WIDER, most))

    async def up_to(self, ends: Mapping[TopicPartition, int]) -> None:
        """Read on to these offsets, or as many as are shown of the oldest."""
        found, wanted, consumer = self.found, self._wanted, self._consumer
        is_newest = wanted.start == "newest"
        while True:
            left = [p for p, end in ends.items() if (consumer.position(p) or 0) < end]
            if not left or (not is_newest and len(found.messages) >= SHOWN):
                return
            if self._is_over:
                found.is_cut = True
                return
            for message in await _polled(consumer, self._decode, left):
                if message.offset >= ends[TopicPartition(left[0].topic, message.partition)]:
                    continue  # a window before has it, or it came meanwhile
                found.scanned += 1
                if wanted.matches(message):
                    found.messages.append(message.shown())
                    self._matching[message.partition] += 1
            found.keep(is_newest=is_newest)


async def tail(
    connection: Connection,
    topic: str,
    indexes: Iterable[int],
    wanted: MessageQuery,
    mask: Mask | None,
) -> AsyncGenerator[list[Message]]:
    """Yield new messages as they come, and an empty list at least twice a second, until the console
    ends."""
    places = [TopicPartition(topic, index) for index in chosen(indexes, wanted.partition)]
    async with connection.follower() as consumer:
        consumer.assign(places)
        for place, end in (await consumer.end_offsets(places)).items():
            consumer.seek(place, end)
        yield []
        decode = Texts(connection.decoder, mask, whole=bool(wanted.text))
        while not connection.is_ending:
            came = await _polled(consumer, decode, None)
            yield [each.shown() for each in came if wanted.matches(each)]


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
                    has_exact_headers=are_exact(each.headers, decode.headers(each.headers)),
                )
            )
    return found
