"""A record as text: decoded by a schema, masked, and cut where a page shows the beginning of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.client import ConsumerRecord
from moldau.client.serdes.contract import Place
from moldau.console.access.masks import Mask
from moldau.console.pages.encoding import are_exact
from moldau.console.pages.texts import WHOLE, cut, text_of
from moldau.deferred import dataclass
from moldau.records import Headers

if TYPE_CHECKING:
    from moldau.client.serdes.texts import DecodedText
    from moldau.console.pages.decoding import Decoder, Refusals


@dataclass(frozen=True, slots=True)
class Message:
    """A record as text."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str
    value: str
    headers: tuple[tuple[str, str], ...]
    size_bytes: int = 0
    """How much key and value take."""
    is_null: bool = False
    """Whether it has no value: a tombstone."""
    has_key: bool = True
    is_exact: bool = True
    """Whether a form can send key and value again as they are: all of them is text, or JSON that a
    schema reads."""
    has_exact_headers: bool = True
    """Whether a form can send the headers again as they are."""
    key_schema: str = ""
    value_schema: str = ""
    """The id, in the record, of the schema that wrote it."""


class Texts:
    """Makes texts of the keys, values and headers of one page. What the mask hides is in none."""

    def __init__(
        self, decoder: Decoder | None, mask: Mask | None, *, reads_whole: bool, most: int
    ) -> None:
        """Of keys and values `most` characters are shown. With `reads_whole` all of a text is made
        before it is cut, so that it tells its length in characters."""
        self._decoder = decoder
        self._mask = mask
        self._reads_whole = reads_whole
        self._most = most
        self._refused: Refusals = {}

    async def decoded(self, data: bytes | None, place: Place) -> DecodedText | None:
        """Return what a schema says of a key or a value; None if it names no schema, or one by
        which it cannot be read."""
        if self._decoder is None:
            return None
        return await self._decoder.decoded(data, place, self._refused)

    async def text(self, data: bytes | None, place: Place, *, whole: bool = False) -> str:
        """Return a key or a value as text, decoded if there is a registry."""
        mask = self._mask
        # Of a part of an object no field can be masked.
        most = WHOLE if whole or mask is not None else self._most
        text = await self._unmasked(data, place, most)
        if mask is None:
            return text
        return mask.key(text) if place.is_key else mask.value(text)

    async def _unmasked(self, data: bytes | None, place: Place, most: int) -> str:
        if self._decoder is None:
            return text_of(data, most)
        return await self._decoder.text(data, place, self._refused, most)

    def headers(self, headers: Headers) -> tuple[tuple[str, str], ...]:
        """Return the headers as texts."""
        if self._mask is None:
            return tuple((name, text_of(data)) for name, data in headers)
        masked = self._mask.headers((name, text_of(data, WHOLE)) for name, data in headers)
        return tuple((name, cut(text)) for name, text in masked)

    async def message(self, record: ConsumerRecord[bytes | None, bytes | None]) -> Message:
        """Return a record as text."""
        key = await self._side(record, record.key, is_key=True)
        value = await self._side(record, record.value, is_key=False)
        headers = self.headers(record.headers)
        return Message(
            record.partition,
            record.offset,
            record.timestamp,
            key.text,
            value.text,
            headers,
            sum(len(each) for each in (record.key, record.value) if each is not None),
            is_null=record.value is None,
            has_key=record.key is not None,
            is_exact=key.is_exact and value.is_exact,
            has_exact_headers=are_exact(record.headers, headers),
            key_schema=key.schema,
            value_schema=value.schema,
        )

    async def _side(
        self,
        record: ConsumerRecord[bytes | None, bytes | None],
        data: bytes | None,
        *,
        is_key: bool,
    ) -> _Side:
        place = Place(record.topic, is_key, record.headers)
        text = await self.text(data, place, whole=self._reads_whole)
        schema = "" if self._decoder is None else self._decoder.schema_of(data, place)
        if schema and self._mask is None:
            # What the schema says is JSON, which the form writes by the topic's schema again.
            is_whole = await self.decoded(data, place) is not None
            return _Side(cut(text, self._most), schema, is_whole and len(text) <= self._most)
        is_exact = _is_plain(data, text, is_key=is_key)
        return _Side(cut(text, self._most), schema, is_exact)


@dataclass(frozen=True, slots=True)
class _Side:
    """A key or a value."""

    text: str
    schema: str
    is_exact: bool


def _is_plain(data: bytes | None, text: str, *, is_key: bool) -> bool:
    """Whether a form sends a text as the same bytes: it is UTF-8, with ends of lines that a browser
    keeps, and a key that is there has a line."""
    given = data or b""
    if text.encode("utf-8", "replace") != given or b"\0" in given or b"\r" in given:
        return False
    return not is_key or (b"\n" not in given and data != b"")
