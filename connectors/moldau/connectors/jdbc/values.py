"""Converts values for a column: from Connect's Python types to the driver's.

A conversion is chosen once for a column. With a schema it is chosen by the schema's type, and most
columns need none; a value without a schema is checked each time. Both may raise ValueError or
TypeError, which means that the record is bad.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Set
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final

import orjson

from moldau.config.times import iso_datetime
from moldau.connect.data import Struct
from moldau.connectors.jdbc.columns import INTEGERS, ColumnKind, ColumnType

Convert = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_ZERO = date(1970, 1, 1)
_SAME = {
    ColumnKind.INT8,
    ColumnKind.INT16,
    ColumnKind.INT32,
    ColumnKind.INT64,
    ColumnKind.FLOAT32,
    ColumnKind.FLOAT64,
    ColumnKind.BOOLEAN,
    ColumnKind.STRING,
}
EXACT: Final = Context(prec=140_000, traps=[Inexact, InvalidOperation])
"""For numbers that may not lose a digit."""
_JSON_LIKE = (bool, dict, Struct, bytes)
_FRACTIONS = {ColumnKind.FLOAT32, ColumnKind.FLOAT64}
_NO_PARTS = {ColumnKind.FLOAT32, ColumnKind.FLOAT64, ColumnKind.DECIMAL, ColumnKind.BOOLEAN}


def json_text(value: Any) -> str:
    """Return a value as JSON, with decimals, times and bytes inside it as texts."""
    return orjson.dumps(value, default=_jsonable, option=orjson.OPT_NON_STR_KEYS).decode()


def _jsonable(value: Any) -> Any:
    if isinstance(value, Struct):
        return dict(value.items())
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


class Conversions:
    """Chooses conversions for one database and one db.timezone."""

    def __init__(self, backend: str, zone: tzinfo) -> None:
        self._zone = zone
        self._is_text = backend == "sqlite"
        # The session's zone is db.timezone, and text with the offset +00:00 means the same in it.
        self._ignores_utc = backend == "postgresql" and zone is UTC
        # DuckDB's driver makes a double of a decimal with more than 38 digits.
        self._decimal: Convert | None = (
            _digits if backend == "duckdb" else str if self._is_text else None
        )
        self._has_arrays = backend in {"postgresql", "duckdb"}

    def typed(self, source: ColumnType, target: ColumnType) -> Convert | None:
        """Return the conversion of values with a schema; None if the driver needs none."""
        kind = source.kind
        if kind in _SAME:
            if target.kind is ColumnKind.STRING and kind is not ColumnKind.STRING:
                return _text
            if target.kind in INTEGERS and kind in _FRACTIONS:
                return _whole
            return self.times_in(target) if target.kind is ColumnKind.TIMESTAMP else None
        if target.element is not None and target.kind is ColumnKind.STRING:
            return _texts
        if kind is ColumnKind.ARRAY:
            if self._has_arrays and target.kind is ColumnKind.ARRAY:
                return self._array(source)
            return json_text
        if kind is ColumnKind.JSON and self._has_arrays and target.kind is ColumnKind.ARRAY:
            return _nested
        return {
            ColumnKind.JSON: json_text,
            ColumnKind.DECIMAL: self._exactly(target),
            ColumnKind.BYTES: bytes,
            ColumnKind.DATE: date.isoformat if self._is_text else None,
            ColumnKind.TIME: time.isoformat if self._is_text else None,
            ColumnKind.TIMESTAMP: None if self._ignores_utc else self._timestamp(target),
            ColumnKind.TIMESTAMP_TZ: None if self._ignores_utc else self._timestamp(target),
        }[kind]

    def untyped(self, target: ColumnType) -> Convert:
        """Return the conversion of JSON values without a schema."""
        kind = target.kind
        if kind in INTEGERS:
            return _whole
        if kind is ColumnKind.STRING and target.element is not None:
            return _texts
        if kind is ColumnKind.ARRAY and self._has_arrays:
            return _plain
        if kind in _NO_PARTS:
            return _decimal_text if self._is_text and kind is not ColumnKind.BOOLEAN else _one
        return {
            ColumnKind.STRING: _text,
            ColumnKind.JSON: _json,
            ColumnKind.ARRAY: _json,
            ColumnKind.BYTES: _bytes,
            ColumnKind.DATE: self._date,
            ColumnKind.TIME: self._time,
            ColumnKind.TIMESTAMP: self._any_timestamp(target),
            ColumnKind.TIMESTAMP_TZ: self._any_timestamp(target),
        }[kind]

    def _exactly(self, target: ColumnType) -> Convert | None:
        """Return the conversion of decimals. Databases round one that has more digits than its
        column, without an error; SQLite keeps it as a text."""
        convert = self._decimal
        scale = 0 if target.kind in INTEGERS else target.scale
        if scale is None or self._is_text or target.kind not in (ColumnKind.DECIMAL, *INTEGERS):
            return convert
        unit = Decimal(1).scaleb(-scale)

        def exact(value: Decimal) -> Any:
            try:
                if value.is_finite():
                    value.quantize(unit, context=EXACT)
            except Inexact:
                raise ValueError(_rounded(value, scale)) from None
            return value if convert is None else convert(value)

        return exact

    def times_in(self, target: ColumnType) -> Convert:
        """Return the conversion of milliseconds since 1970 to a timestamp column."""
        convert = self._timestamp(target)
        return lambda value: convert(_EPOCH + timedelta(milliseconds=value))

    def since_epoch(self, target: ColumnType, unit_ns: int) -> Convert:
        """Return the conversion of whole numbers in another unit, for timestamp.fields.list."""
        convert = self._timestamp(target)
        return lambda value: convert(_EPOCH + timedelta(microseconds=int(value) * unit_ns // 1000))

    def _array(self, source: ColumnType) -> Convert | None:
        assert source.element is not None
        convert = self.typed(source.element, source.element)
        if convert is None:
            return None
        return lambda values: [None if v is None else convert(v) for v in values]

    def _timestamp(self, target: ColumnType) -> Convert:
        zone = self._zone
        if target.kind is ColumnKind.TIMESTAMP_TZ and not self._is_text:
            return lambda value: value
        if zone is UTC and not self._is_text:
            return lambda value: (
                value.replace(tzinfo=None) if value.tzinfo is UTC else _wall(value, UTC)
            )
        if self._is_text:
            return lambda value: _wall(value, zone).isoformat(sep=" ", timespec="microseconds")
        return lambda value: _wall(value, zone)

    def _any_timestamp(self, target: ColumnType) -> Convert:
        convert = self._timestamp(target)

        def untyped(value: Any) -> Any:
            if isinstance(value, bool):
                raise TypeError(f"{value!r} is no time")
            if isinstance(value, int | float):
                value = _EPOCH + timedelta(milliseconds=value)
            elif isinstance(value, str):
                value = iso_datetime(value)
                if value.tzinfo is None:
                    value = value.replace(tzinfo=self._zone)
            return convert(_of_type(value, datetime))

        return untyped

    def _date(self, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            value = _DAY_ZERO + timedelta(days=value)
        elif isinstance(value, str):
            value = date.fromisoformat(value)
        value = _of_type(value, date)
        return value.isoformat() if self._is_text else value

    def _time(self, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            value = (datetime.min + timedelta(milliseconds=value)).time()
        elif isinstance(value, str):
            value = time.fromisoformat(value)
        value = _of_type(value, time)
        return value.isoformat() if self._is_text else value


def _of_type(value: Any, wanted: type) -> Any:
    """Return the value. Raise TypeError for a value that the driver might take for another."""
    if not isinstance(value, wanted):
        raise TypeError(f"{value!r:.100} is no {wanted.__name__}")
    return value


def _digits(value: Decimal) -> str:
    return f"{value:f}"


def _nested(value: Any) -> Any:
    """Return lists in lists as they are, for a column of arrays with several dimensions."""
    return value if isinstance(value, list) else json_text(value)


def are_unchanged(convert: Convert, kinds: Set[type]) -> bool:
    """Whether a conversion of values without a schema leaves all values of these types as they
    are."""
    return kinds <= _UNCHANGED.get(convert, frozenset())


def _wall(value: datetime, zone: tzinfo) -> datetime:
    return value.astimezone(zone).replace(tzinfo=None)


def _plain(value: Any) -> Any:
    return json_text(value) if isinstance(value, dict) else value


def _one(value: Any) -> Any:
    """Return a single value. A driver may write a list as something else, or JSON as a text."""
    if isinstance(value, dict | list):
        kind = "an object" if isinstance(value, dict) else "a list"
        raise TypeError(f"{kind} is no value for a column of numbers or booleans")
    return value


def _decimal_text(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else _one(value)


def _whole(value: Any) -> Any:
    if not isinstance(value, float):
        return _one(value)
    if not value.is_integer():
        raise ValueError(_rounded(value, 0))
    return int(value)


def _rounded(value: Any, scale: int) -> str:
    """Return what is wrong with a number that a column would round."""
    return (
        f"{value} has more than {scale} digits after the point, and the column would round it -> "
        "give the column a larger scale, or round the field in a transform"
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return str(value)
    return json_text(value)


def _texts(value: Any) -> Any:
    """Return a list, and lists in it, with texts that the server reads as it reads literals."""
    if isinstance(value, list):
        return [None if each is None else _texts(each) for each in value]
    return _text(value) if isinstance(value, _JSON_LIKE) else str(value)


def _json(value: Any) -> str:
    """Return JSON. A text that is JSON already is not changed; any other becomes a JSON string."""
    if isinstance(value, str):
        try:
            orjson.loads(value)
        except orjson.JSONDecodeError:
            return json_text(value)
        return value
    return json_text(value)


def _bytes(value: Any) -> bytes:
    """Return the bytes of a base64 text: JSON has no bytes, so converters write base64."""
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a {type(value).__name__} is no binary value, which JSON has as base64 text")


_NONE = type(None)
_SINGLE: Set[type] = frozenset({int, float, bool, str, _NONE})
_UNCHANGED: Mapping[Convert, Set[type]] = {
    _text: frozenset({str, _NONE}),
    _whole: frozenset({int, bool, _NONE}),
    _plain: _SINGLE,
    _one: _SINGLE,
    _decimal_text: _SINGLE,
}
