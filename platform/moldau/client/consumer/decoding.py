"""Deserialization of fetched keys and values. No IO of its own.

Invariants: records keep their order and none is left out. The first record of a partition that
cannot be decoded ends what is returned of that partition; its error names topic, partition and
offset. Other partitions are not affected.

Whole columns are decoded at a time. Only when one fails are its records decoded one by one to find
the bad one: the usual batch pays nothing for the exact error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from moldau.client.consumer.records import PartitionRecords
from moldau.client.serdes.contract import (
    BatchDeserializer,
    Deserializer,
    DeserializerGiven,
    Place,
    asking_once,
)
from moldau.client.settings import serdes as rows
from moldau.errors import MoldauError
from moldau.link.metadata import TopicPartition
from moldau.records import ConsumerRecord, with_contents
from moldau.runtime.cancellation import CancelledError, is_cancelling
from moldau.values.failures import DeserializationFailed, told

if TYPE_CHECKING:
    from moldau.config import Settings
    from moldau.runtime import Runtime

T = TypeVar("T")

Decode = Callable[[bytes, Place], Any]
DecodeMany = Callable[[Sequence[bytes | None], Place], Any]


class UndecodedRecord(NamedTuple):
    """A record that cannot be decoded: its partition and offset, and the error."""

    where: TopicPartition
    offset: int
    error: DeserializationFailed


class _Side:
    """The deserializer of either keys or values."""

    __slots__ = ("_many", "_plain", "one", "wants_headers")

    def __init__(self, deserializer: Deserializer) -> None:
        self.one: Decode = deserializer
        self.wants_headers = bool(getattr(deserializer, "wants_headers", False))
        self._many: DecodeMany = self._each
        if isinstance(deserializer, BatchDeserializer):
            self._many = deserializer.many
        self._plain: set[type] = set()

    async def column(self, data: list[bytes | None], place: Place) -> list[Any]:
        """Decode all values of a column. Raise the error of the first bad one."""
        found = self._many(data, place)
        decoded: list[Any] = found if type(found) is list else await found
        if len(decoded) != len(data):
            raise ValueError(f"many() gave {len(decoded)} for {len(data)}")
        return decoded

    async def _each(self, data: Sequence[bytes | None], place: Place) -> list[Any]:
        return [None if each is None else await self.decode(each, place) for each in data]

    async def decode(self, data: bytes, place: Place) -> Any:
        """Decode one value."""
        decoded = self.one(data, place)
        kind = type(decoded)
        if kind not in self._plain:
            if hasattr(kind, "__await__"):
                return await cast(Awaitable[Any], decoded)
            self._plain.add(kind)
        return decoded


class RecordDecoder:
    """The deserializers of one consumer."""

    def __init__(self, key: Deserializer | None, value: Deserializer | None) -> None:
        self._key = None if key is None else _Side(key)
        self._value = None if value is None else _Side(value)
        self._places: dict[str, tuple[Place, Place]] = {}
        self._ends: list[Callable[[], Awaitable[None]]] = []

    @classmethod
    def of(
        cls,
        given: tuple[DeserializerGiven, DeserializerGiven],
        settings: Settings,
        runtime: Runtime,
    ) -> RecordDecoder | None:
        """Return the deserializers given as objects or by settings; None if keys and values stay
        bytes. ConfigError names the wrong setting."""
        named = (settings[rows.key_deserializer], settings[rows.value_deserializer])
        chosen = [name if each is None else each for each, name in zip(given, named, strict=True)]
        if chosen == [None, None]:
            return None
        from moldau.client.serdes.resolve import close_serde, resolve_deserializer

        key = resolve_deserializer(chosen[0], settings, is_key=True, runtime=runtime)
        value = resolve_deserializer(chosen[1], settings, is_key=False, runtime=runtime)
        decoding = cls(key, value)
        decoding._ends = [
            partial(close_serde, chosen[0], key),
            partial(close_serde, chosen[1], value),
        ]
        return decoding

    async def aclose(self) -> None:
        """Close the deserializers that were made here from names, once."""
        async with AsyncExitStack() as left:
            while self._ends:
                left.push_async_callback(self._ends.pop())

    async def decode(
        self, parts: list[PartitionRecords]
    ) -> tuple[list[PartitionRecords], list[UndecodedRecord]]:
        """Return the decoded parts, up to the first bad record of each partition, and those."""
        with asking_once():
            return await self._decode(parts)

    async def _decode(
        self, parts: list[PartitionRecords]
    ) -> tuple[list[PartitionRecords], list[UndecodedRecord]]:
        decoded: list[PartitionRecords] = []
        failed: dict[TopicPartition, UndecodedRecord] = {}
        for part in parts:
            where = TopicPartition(part.topic, part.partition)
            if where in failed:
                continue
            whole, error = await _attempt(self._whole(part))
            if whole is not None:
                decoded.append(whole)
            if error is None:
                continue
            good, bad = await self._one_by_one(part, where)
            decoded += good
            if bad is not None:
                failed[where] = bad
        return decoded, list(failed.values())

    async def _whole(self, part: PartitionRecords) -> PartitionRecords:
        records = list(part.records)
        key_place, value_place = self._places_of(part.topic)
        keys: list[Any] = [each.key for each in records]
        values: list[Any] = [each.value for each in records]
        has_headers = any(each.headers for each in records)
        if self._key is not None:
            _refuse_headers(self._key, has_headers)
            keys = await self._key.column(keys, key_place)
        if self._value is not None:
            _refuse_headers(self._value, has_headers)
            values = await self._value.column(values, value_place)
        return part._replace(records=with_contents(records, keys, values))

    async def _one_by_one(
        self, part: PartitionRecords, where: TopicPartition
    ) -> tuple[list[PartitionRecords], UndecodedRecord | None]:
        good: list[ConsumerRecord] = []
        for record in part.records:
            row: list[Any] = []
            for side, place in self._sides(part.topic):
                data = record.value if row else record.key
                decoded, error = await _attempt(_decode(side, data, record, place))
                if error is not None:
                    bad = UndecodedRecord(
                        where, record.offset, _failure(error, place, where, record)
                    )
                    if not good:
                        return [], bad
                    return [part._replace(records=good, next_offset=record.offset)], bad
                row.append(decoded)
            good += with_contents([record], row[:1], row[1:])
        return [part._replace(records=good)], None

    def _sides(self, topic: str) -> tuple[tuple[_Side | None, Place], tuple[_Side | None, Place]]:
        key_place, value_place = self._places_of(topic)
        return (self._key, key_place), (self._value, value_place)

    def _places_of(self, topic: str) -> tuple[Place, Place]:
        places = self._places.get(topic)
        if places is None:
            places = self._places[topic] = (Place(topic, True), Place(topic, False))
        return places


async def _attempt(
    decoding: Awaitable[T],
) -> tuple[T | None, Exception | CancelledError | None]:
    """Return the result or error of `decoding`. Raise if the calling task itself is cancelled."""
    try:
        return await decoding, None
    except (Exception, CancelledError) as error:
        if is_cancelling(error):
            raise
        return None, error


class _Headers(Exception):
    """Raised when a column cannot be decoded at once: each record's headers are needed."""


def _refuse_headers(side: _Side, has_headers: bool) -> None:
    if has_headers and side.wants_headers:
        raise _Headers


async def _decode(
    side: _Side | None, data: bytes | None, record: ConsumerRecord, place: Place
) -> Any:
    if side is None or data is None:
        return data
    if side.wants_headers and record.headers:
        place = Place(place.topic, place.is_key, record.headers)
    return await side.decode(data, place)


def _failure(
    error: BaseException, place: Place, where: TopicPartition, record: ConsumerRecord
) -> DeserializationFailed:
    """Return an error that names the record and says what can be done."""
    facts = error.context if isinstance(error, MoldauError) else {}
    failure = DeserializationFailed(
        f"the {place.side} of a record cannot be deserialized: {told(error)}; {_advice(error)}",
        **{
            **facts,
            "topic": where.topic,
            "partition": where.partition,
            "offset": record.offset,
            "setting": f"{place.side}.deserializer",
        },
    )
    failure.__cause__ = error
    return failure


def _advice(error: BaseException) -> str:
    """Return what the user can do. No seek if the registry fails: it would skip a good record."""
    may_heal = bool(getattr(error, "retriable", False))
    if not getattr(error, "is_of_record", True):
        return "poll again" if may_heal else "poll again when that is put right"
    return "poll again, or seek past it to go on" if may_heal else "seek past it to go on"
