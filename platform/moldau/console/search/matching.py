"""Which records of a topic a search wants: by an expression, the one of `moldau consume --where`,
and by a text in the key or the value.

Whole batches come as columns. A sieve finds the few records that can match by their bytes, and only
these become objects, are decoded and masked, and are asked one by one.

Invariant: what a mask hides is not found: with a mask the expression and the text see what the
visitor sees, and there is no sieve.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from moldau.cli.command import UsageError
from moldau.cli.commands.consume_where import RecordFilter
from moldau.client import ConsumerRecord
from moldau.client.serdes.contract import Place
from moldau.client.serdes.framed import KEY_HEADER, VALUE_HEADER
from moldau.console.access.masks import Mask
from moldau.console.pages.rendering import BadForm
from moldau.console.pages.texts import SHOWN_BYTES, WHOLE
from moldau.console.search.message import Message, Texts
from moldau.expressions.sieve import BatchColumns, Column, sieve_of, sieve_of_text
from moldau.records import span_list

if TYPE_CHECKING:
    from moldau.client.base.columns import BinaryColumn, PartitionColumns
    from moldau.console.pages.decoding import Decoder
    from moldau.expressions.sieve import Sieve

Record: TypeAlias = ConsumerRecord[Any, Any]
Rest: TypeAlias = Callable[[], Awaitable[None]]
_FEW: Final = 4
"""Records are made one by one if so many times more are not asked for."""
_NONE: Final[tuple[int, ...]] = (0,)
_BETWEEN: Final = 32
"""Records that are asked between two looks at the clock."""
_LARGE: Final = 1 << 14
"""After a record with so many bytes comes a look at the clock."""


class SearchFilter:
    """The filter of one search. It is for one task."""

    def __init__(
        self,
        decoder: Decoder | None,
        mask: Mask | None,
        where: str = "",
        text: str = "",
        *,
        whole: bool = False,
    ) -> None:
        """`whole` is whether messages keep all of their texts. Raise BadForm for an expression that
        is none."""
        most = WHOLE if whole else SHOWN_BYTES
        self._texts = Texts(decoder, mask, reads_whole=whole or bool(text), most=most)
        self._has_schemas = decoder is not None
        self._mask = mask
        self._text = text
        self._where = _filter_of(where) if where.strip() else None
        self._sieves: list[Sieve] = []
        if self._where is not None and mask is None:
            found = sieve_of(where)
            self._sieves += [] if found is None else [found]
        self._text_sieve = sieve_of_text(text) if text and mask is None else None

    @property
    def is_open(self) -> bool:
        """Whether every record matches."""
        return self._where is None and not self._text

    @property
    def note(self) -> str:
        """What to tell about records for which the expression has failed."""
        return (self._where.note if self._where is not None else None) or ""

    async def chosen(
        self, part: PartitionColumns, low: int, high: int, rest: Rest
    ) -> tuple[int, list[Message]]:
        """Return how many records lie between two offsets, and those of them that match. `rest` is
        awaited between two records, so that other work goes on."""
        offsets = part.offsets
        first, last = bisect_left(offsets, low), bisect_left(offsets, high)
        places = [each for each in self._candidates(part) if first <= each < last]
        found = []
        for index, record in enumerate(_records(part, places)):
            message = await self.message(record)
            if message is not None:
                found.append(message)
            if index % _BETWEEN == 0 or _size_of(record) >= _LARGE:
                await rest()
        return last - first, found

    async def message(self, record: Record) -> Message | None:
        """Return a record as a message if it matches."""
        if self._where is not None and not self._where.is_wanted(await self._readable(record)):
            return None
        if self._text and not await self._has_text(record):
            return None
        return await self._texts.message(record)

    async def _has_text(self, record: Record) -> bool:
        texts, headers = self._texts, record.headers
        value = await texts.text(record.value, Place(record.topic, False, headers), whole=True)
        if self._text in value:
            return True
        key = await texts.text(record.key, Place(record.topic, True, headers), whole=True)
        return self._text in key

    async def _readable(self, record: Record) -> Record:
        """Return a record as the expression reads it: decoded by its schemas, or masked."""
        if self._mask is None and not self._has_schemas:
            return record
        headers: Any = record.headers
        if self._mask is not None:
            shown = self._texts.headers(headers)
            headers = tuple((name, text.encode("utf-8", "replace")) for name, text in shown)
        return ConsumerRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            await self._side(record, record.key, is_key=True),
            await self._side(record, record.value, is_key=False),
            headers,
        )

    async def _side(self, record: Record, data: bytes | None, *, is_key: bool) -> Any:
        place = Place(record.topic, is_key, record.headers)
        if data is None:
            return None
        if self._mask is not None:
            text = await self._texts.text(data, place, whole=True)
            return text.encode("utf-8", "replace")
        decoded = await self._texts.decoded(data, place)
        return data if decoded is None else decoded

    def _candidates(self, part: PartitionColumns) -> Sequence[int]:
        """Return the places of the records that may match."""
        whole = range(len(part))
        if not self._sieves and self._text_sieve is None:
            return whole
        columns = _columns_of(part, has_schemas=self._has_schemas)
        sieves = [*self._sieves]
        if self._text_sieve is not None and _is_plain(columns):
            sieves.append(self._text_sieve)
        left: Sequence[int] = whole
        for sieve in sieves:
            found = sieve.candidates(columns)
            left = found if left is whole else sorted({*left} & {*found})
            if not left:
                break
        return left


def _size_of(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _filter_of(where: str) -> RecordFilter:
    try:
        return RecordFilter(where, "where")
    except UsageError as error:
        raise BadForm(str(error)) from None


def _is_plain(columns: BatchColumns) -> bool:
    """Whether keys and values are shown as the texts that they are."""
    sides = (columns.key, columns.value)
    return all(each.data.isascii() and b"\0" not in each.data and not each.opaque for each in sides)


def _columns_of(part: PartitionColumns, *, has_schemas: bool) -> BatchColumns:
    headers = part.headers
    named = Column(b"", _NONE) if headers is None else _column(headers.contents)
    made = BatchColumns(
        len(part),
        part.partition,
        part.offsets,
        part.timestamps,
        _column(part.keys),
        _column(part.values),
        named,
        [0] * (len(part) + 1) if headers is None else headers.ends,
    )
    return _with_opaque(made, part) if has_schemas else made


def _column(column: BinaryColumn) -> Column:
    data = column.spans.data
    whole = data if isinstance(data, (bytes, bytearray)) else bytes(data or b"")
    return Column(whole, column.ends)


def _with_opaque(columns: BatchColumns, part: PartitionColumns) -> BatchColumns:
    """Return the columns with the records that may name a schema."""
    sides = {}
    for name, header in (("key", KEY_HEADER), ("value", VALUE_HEADER)):
        found = columns.with_text(name, b"\0") | columns.with_text(name, b"\1")
        if part.headers is not None and header.encode() in bytes(part.headers.names.data):
            found = set(range(len(part)))
        sides[name] = getattr(columns, name)._replace(opaque=frozenset(found))
    return BatchColumns(
        columns.count,
        columns.partition,
        columns.offsets,
        columns.timestamps,
        sides["key"],
        sides["value"],
        columns.headers,
        columns.header_ends,
    )


def _records(part: PartitionColumns, places: Sequence[int]) -> Sequence[Record]:
    """Return some of the records of a part as objects."""
    if len(places) * _FEW > len(part):
        records = part.records()
        return records if len(places) == len(part) else [records[each] for each in places]
    offsets, stamps, keys, values = part.offsets, part.timestamps, part.keys, part.values
    return [
        ConsumerRecord(
            part.topic,
            part.partition,
            offsets[each],
            stamps[each],
            keys[each],
            values[each],
            _headers_at(part, each),
        )
        for each in places
    ]


def _headers_at(part: PartitionColumns, at: int) -> tuple[tuple[str, bytes | None], ...]:
    headers = part.headers
    if headers is None:
        return ()
    low, high = headers.ends[at], headers.ends[at + 1]
    if low == high:
        return ()
    names, contents = headers.buffers.names, headers.buffers.contents
    sides = (
        span_list(each._replace(first=each.first + low, length=high - low))
        for each in (names, contents)
    )
    return tuple((bytes(name or b"").decode(), data) for name, data in zip(*sides, strict=True))
