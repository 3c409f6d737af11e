"""Converts a result's rows to Connect's values: a schema, and a conversion for each column.

Types are those of Confluent's connector, including `numeric.mapping` and `timestamp.granularity`. A
column that the driver already returns in the right Python type is not converted; only the others
cost a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from itertools import repeat
from operator import add, sub
from typing import Any

from moldau.config.times import iso_datetime
from moldau.connect.data import (
    BOOLEAN,
    BYTES,
    DATE,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
)
from moldau.connect.errors import ConnectError, DataError
from moldau.connectors.jdbc.columns import Column, ColumnKind, ColumnType
from moldau.connectors.jdbc.mysql_catalog import UNSIGNED_DIGITS
from moldau.connectors.jdbc.values import EXACT, json_text
from moldau.deferred import dataclass

Convert = Callable[[Any], Any]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)
_SECOND_NS = 1_000_000_000
# Confluent's scale for decimals whose column declares none.
SCALE_UNKNOWN = 127
_INTEGER_DIGITS_MAX = 18


class NumericMapping(Enum):
    """The type of the values of a NUMERIC column; `none` keeps them exact."""

    NONE = "none"
    PRECISION_ONLY = "precision_only"
    BEST_FIT = "best_fit"
    BEST_FIT_EAGER_DOUBLE = "best_fit_eager_double"


class Granularity(Enum):
    """The type of the values of a timestamp column."""

    CONNECT_LOGICAL = "connect_logical"
    MICROS_LONG = "micros_long"
    MICROS_STRING = "micros_string"
    MICROS_ISO = "micros_iso_datetime_string"
    NANOS_LONG = "nanos_long"
    NANOS_STRING = "nanos_string"
    NANOS_ISO = "nanos_iso_datetime_string"


@dataclass(frozen=True, slots=True)
class Mapping:
    """The settings that decide types. `zone` is db.timezone, the zone of naive timestamps.

    `is_exact`: the driver returns the Python type of each column, so most need no conversion.
    """

    numeric: NumericMapping = NumericMapping.NONE
    granularity: Granularity = Granularity.CONNECT_LOGICAL
    zone: tzinfo = UTC
    is_exact: bool = False


class RowLayout:
    """Maps rows of one shape to the values of a struct schema."""

    def __init__(self, name: str | None, columns: Sequence[Column], mapping: Mapping) -> None:
        self.columns = tuple(columns)
        fields: dict[str, Schema] = {}
        converts: list[tuple[int, Convert, type | None]] = []
        for index, column in enumerate(columns):
            schema, convert = _mapped(column.type, mapping)
            fields[column.name] = schema.optionally(column.nullable)
            if convert is not None:
                converts.append((index, convert, _UNCHANGED.get(convert)))
        self.schema = Schema.struct(fields, name=name)
        self._converts = converts
        self._zone = mapping.zone

    def values(self, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
        """Convert the driver's rows to columns of Connect's values. Raise DataError on a misfit."""
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        for index, convert, unchanged in self._converts:
            column = columns[index]
            if unchanged is None or not set(map(type, column)) <= {unchanged, _NONE}:
                columns[index] = self._converted(index, column, convert)
        return columns

    def _converted(self, index: int, column: Sequence[Any], convert: Convert) -> list[Any]:
        if convert is _utc:
            # The most frequent conversion: datetime.replace costs several times as much.
            with suppress(TypeError):  # there is a None, or a datetime with a zone
                return list(map(add, repeat(EPOCH), map(sub, column, repeat(_NAIVE_EPOCH))))
        converted = []
        for value in column:
            try:
                converted.append(None if value is None else convert(value))
            except (ValueError, TypeError, ArithmeticError) as error:
                raise self._misfit(index, value, error) from error
        return converted

    def _misfit(self, index: int, value: Any, error: Exception) -> DataError:
        name, kind = self.columns[index].name, self.columns[index].type.kind.value
        return DataError(
            f"column {name}: cannot map {value!r:.200} to {kind} ({error}) -> select it as text: "
            f"query=SELECT CAST({name} AS ...) ..."
        )

    def position(self, name: str) -> int:
        """Return the index of a column. Its name may have a dot in it, or include its table
        (`t.id`)."""
        names = [column.name for column in self.columns]
        lowered = [each.lower() for each in names]
        for wanted in (name, name.rpartition(".")[2]):
            if wanted in names:
                return names.index(wanted)
            if wanted.lower() in lowered:
                return lowered.index(wanted.lower())
        raise ConnectError(
            f"the result has no column {name} -> correct its name in the config; the result has "
            f"{', '.join(lowered)}"
        )

    def instant(self, value: Any) -> int:
        """Return the driver's timestamp in nanoseconds since 1970."""
        return instant_ns(value, self._zone)


def _mapped(column: ColumnType, mapping: Mapping) -> tuple[Schema, Convert | None]:
    kind = column.kind
    if kind is ColumnKind.DECIMAL:
        return _decimal(column, mapping.numeric)
    if kind in (ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ):
        return _timestamp(mapping)
    if kind is ColumnKind.ARRAY:
        assert column.element is not None
        schema, convert = _mapped(column.element, mapping)
        items = Schema.array(schema.optionally())
        return items, _each(convert, has_lists=column.element.kind is ColumnKind.ARRAY)
    if kind is ColumnKind.INT64 and column.precision == UNSIGNED_DIGITS:
        return INT64, _long
    schema, convert = _PLAIN[kind]
    return schema, None if mapping.is_exact and kind in _EXACT_KINDS else convert


def _each(convert: Convert | None, *, has_lists: bool) -> Convert:
    """Return the conversion of a list. PostgreSQL does not check an array's dimensions."""

    def converted(values: Any) -> list[Any]:
        if not isinstance(values, list | tuple):
            raise TypeError("it is no list")
        if not has_lists and any(isinstance(value, list | tuple) for value in values):
            raise ValueError("it has more dimensions than the column declares")
        if convert is None:
            return list(values)
        return [None if value is None else convert(value) for value in values]

    return converted


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview | timedelta):
        raise TypeError("it is no text")
    return json_text(value) if isinstance(value, dict | list | tuple | bool) else str(value)


_BOOLEANS: dict[Any, bool] = {
    **dict.fromkeys((1, "1", "t", "true", "y", "yes", "on", b"\x01"), True),
    **dict.fromkeys((0, "0", "f", "false", "n", "no", "off", b"\x00"), False),
}


def _boolean(value: Any) -> bool:
    found = _BOOLEANS.get(value.strip().lower() if isinstance(value, str) else value)
    if found is None:
        raise ValueError("it is neither true nor false")
    return found


def _whole(value: Any) -> int:
    """Return a whole number. SQLite keeps any value in any column."""
    if isinstance(value, str | bytes) or int(value) != value:
        raise ValueError("it is no whole number")
    return int(value)


def _long(value: Any) -> int:
    return _within(_whole(value), 64)


def _within(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise ValueError(f"it does not fit {bits} bits")
    return value


def _date(value: Any) -> date:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    if isinstance(value, int):
        return (EPOCH + timedelta(milliseconds=value)).date()
    return date.fromisoformat(value[:10])


def _time(value: Any) -> time:
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise ValueError("it has an offset")
        return value
    if isinstance(value, timedelta):
        if not timedelta() <= value < timedelta(days=1):
            raise ValueError("it is no time of a day")
        return (datetime.min + value).time()
    if isinstance(value, int):
        return (EPOCH + timedelta(milliseconds=value)).time()
    return time.fromisoformat(value)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


_PLAIN: dict[ColumnKind, tuple[Schema, Convert | None]] = {
    ColumnKind.BOOLEAN: (BOOLEAN, _boolean),
    ColumnKind.INT8: (INT8, _whole),
    ColumnKind.INT16: (INT16, _whole),
    ColumnKind.INT32: (INT32, _whole),
    ColumnKind.INT64: (INT64, _whole),
    ColumnKind.FLOAT32: (FLOAT32, float),
    ColumnKind.FLOAT64: (FLOAT64, float),
    ColumnKind.STRING: (STRING, _text),
    ColumnKind.JSON: (STRING, _text),
    ColumnKind.BYTES: (BYTES, _bytes),
    ColumnKind.DATE: (DATE, _date),
    ColumnKind.TIME: (TIME, _time),
}
_EXACT_KINDS = {*_PLAIN} - {ColumnKind.TIME}
_UNCHANGED: dict[Convert, type] = {
    _boolean: bool,
    _whole: int,
    float: float,
    _text: str,
    _bytes: bytes,
    _date: date,
}
"""The type of the values that a conversion returns as they are: a column of these is skipped."""
_NONE = type(None)


def _decimal(column: ColumnType, numeric: NumericMapping) -> tuple[Schema, Convert | None]:
    precision, scale = column.precision, column.scale
    fits = precision is not None and precision <= _INTEGER_DIGITS_MAX
    if scale is not None and scale <= 0 and fits and numeric is not NumericMapping.NONE:
        assert precision is not None
        schema, bits = _integer_schema(precision)
        return schema, lambda value: _within(_whole(value), bits)
    is_fraction = scale is None or scale > 0
    if is_fraction and numeric is NumericMapping.BEST_FIT_EAGER_DOUBLE:
        return FLOAT64, float
    if is_fraction and fits and numeric is NumericMapping.BEST_FIT:
        return FLOAT64, float
    scale = SCALE_UNKNOWN if scale is None else scale
    return Schema.decimal(scale), _exactly(scale)


def _integer_schema(precision: int) -> tuple[Schema, int]:
    """Return the smallest schema for so many digits, and its bits."""
    if precision > 9:
        return INT64, 64
    if precision > 4:
        return INT32, 32
    return (INT16, 16) if precision > 2 else (INT8, 8)


def _exactly(scale: int) -> Convert:
    """Return a conversion to decimals with `scale` digits after the point. It loses no digit."""
    unit = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        number = value if isinstance(value, Decimal) else Decimal(str(value))
        if not number.is_finite():
            raise ValueError("it is no finite number")
        if number.as_tuple().exponent == -scale:
            return number
        return number.quantize(unit, context=EXACT)

    return convert


def _timestamp(mapping: Mapping) -> tuple[Schema, Convert]:
    zone, granularity = mapping.zone, mapping.granularity
    if granularity is Granularity.CONNECT_LOGICAL:
        if mapping.is_exact and zone is UTC:
            return TIMESTAMP, _utc
        return TIMESTAMP, lambda value: to_utc(value, zone)
    if granularity is Granularity.MICROS_LONG:
        return INT64, lambda value: instant_ns(value, zone) // 1000
    if granularity is Granularity.NANOS_LONG:
        return INT64, lambda value: instant_ns(value, zone)
    if granularity is Granularity.MICROS_STRING:
        return STRING, lambda value: str(instant_ns(value, zone) // 1000)
    if granularity is Granularity.NANOS_STRING:
        return STRING, lambda value: str(instant_ns(value, zone))
    nanos = "000" if granularity is Granularity.NANOS_ISO else ""
    return STRING, lambda value: _naive(value, zone).isoformat(timespec="microseconds") + nanos


def _utc(value: datetime) -> datetime:
    return EPOCH + (value - _NAIVE_EPOCH) if value.tzinfo is None else value.astimezone(UTC)


def _naive(value: Any, zone: tzinfo) -> datetime:
    return to_utc(value, zone).astimezone(zone).replace(tzinfo=None)


def to_utc(value: Any, zone: tzinfo) -> datetime:
    """Convert a driver's timestamp: a datetime, text in ISO form, or milliseconds since 1970."""
    if isinstance(value, str):
        value = iso_datetime(value)
        if value.tzinfo is not None and value.utcoffset():
            raise DataError(f"{value} has an offset: keep times without one, in db.timezone")
    elif isinstance(value, int | float):
        if zone is not UTC:
            raise DataError(f"{value} is a time in milliseconds, which is UTC: set db.timezone=UTC")
        return EPOCH + timedelta(milliseconds=value)
    elif not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if value.tzinfo is None:
        if zone is UTC:
            replaced: datetime = value.replace(tzinfo=UTC)
            return replaced
        value = value.replace(tzinfo=zone)
    converted: datetime = value.astimezone(UTC)
    return converted


def instant_ns(value: Any, zone: tzinfo) -> int:
    """Return a driver's timestamp as nanoseconds since 1970."""
    since = to_utc(value, zone) - EPOCH
    return (since.days * 86_400 + since.seconds) * _SECOND_NS + since.microseconds * 1000


def from_instant(instant: int) -> datetime:
    """Return the UTC time of nanoseconds since 1970, cut off to microseconds."""
    return EPOCH + timedelta(microseconds=instant // 1000)
