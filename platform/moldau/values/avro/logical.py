"""Converts Python's times, decimals and UUIDs to the plain types below Avro's logical types.

This is stricter than fastavro, which takes a time without a zone for one of this machine's zone,
drops the time of a datetime in a date and the zone of a time, and writes -0.00 in a `fixed` as
-0.02 (tests/values/avro/test_libraries.py shows it). Here such values are rejected or written
correctly. A value that already has the plain type passes.

One thing is changed: a time is cut off to the resolution of its type, as in Java's conversions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from moldau.plugins.extras import need
from moldau.values.wire import guid_text

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_LOCAL: Final = datetime(1970, 1, 1)  # a local time has no zone
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MILLI: Final = timedelta(milliseconds=1)
_MICRO: Final = timedelta(microseconds=1)
_UUID: Final = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch
_UUID_HEX: Final = re.compile("[0-9a-fA-F]{32}").fullmatch

Prepare = Callable[[Any], Any]
"""Returns the plain value. Raises ValueError with the reason if there is none."""


def prepare_of(schema: Mapping[str, Any]) -> tuple[Prepare, bool] | None:
    """Return the function that prepares values of the schema, and whether its result is what is
    written. Return None for an unknown logical type, which Avro ignores."""
    name = f"{schema['type']}-{schema.get('logicalType')}"
    known = _KNOWN.get(name)
    if known is not None:
        return known, True
    if name in ("bytes-decimal", "fixed-decimal"):
        return (_decimal(schema), True) if schema.get("precision") else None
    registered = need("fastavro.write", "avro").LOGICAL_WRITERS.get(name)
    if registered is None:
        return None
    return (lambda value: registered(value, schema)), False


def _timestamp(resolution: timedelta) -> Prepare:
    def prepare(value: Any) -> Any:
        if not isinstance(value, datetime):
            return value
        if value.utcoffset() is None:
            raise ValueError("a time with a zone was expected, which says what instant is meant")
        return (value - _EPOCH) // resolution

    return prepare


def _local_timestamp(resolution: timedelta) -> Prepare:
    def prepare(value: Any) -> Any:
        if not isinstance(value, datetime):
            return value
        if value.tzinfo is not None:
            raise ValueError("a local time was expected, without a zone")
        return (value - _EPOCH_LOCAL) // resolution

    return prepare


def _time(resolution: timedelta) -> Prepare:
    def prepare(value: Any) -> Any:
        if not isinstance(value, time):
            return value
        if value.tzinfo is not None:
            raise ValueError("a time of day was expected, without a zone")
        whole = timedelta(
            hours=value.hour,
            minutes=value.minute,
            seconds=value.second,
            microseconds=value.microsecond,
        )
        return whole // resolution

    return prepare


def _date(value: Any) -> Any:
    if isinstance(value, datetime):
        raise ValueError("a date was expected, not a date with a time")
    return value.toordinal() - _EPOCH_DAY if isinstance(value, date) else value


def _uuid(value: Any) -> Any:
    if not isinstance(value, str) and hasattr(value, "hex") and hasattr(value, "urn"):
        return str(value)
    if not isinstance(value, str) or _UUID(value) is not None:
        return value
    if _UUID_HEX(value) is not None:
        return guid_text(bytes.fromhex(value))
    raise ValueError("a UUID was expected, of 32 digits with all four hyphens or with none")


def _decimal(schema: Mapping[str, Any]) -> Prepare:
    scale, precision = schema.get("scale", 0), schema["precision"]
    size: int | None = schema.get("size")

    def prepare(value: Any) -> Any:
        if not isinstance(value, Decimal):
            return value
        sign, digits, exponent = value.as_tuple()
        if not isinstance(exponent, int):
            raise ValueError("a finite number was expected")
        shift = exponent + scale
        if shift < 0:
            raise ValueError(f"at most {scale} digits behind the point were expected")
        unscaled = int("".join(map(str, digits))) if any(digits) else 0
        if unscaled and len(str(unscaled)) + shift > precision:
            raise ValueError(f"at most {precision} digits in all were expected")
        unscaled *= 10**shift if unscaled else 0
        bytes_needed = size if size is not None else (unscaled.bit_length() + 8) // 8
        try:
            return (-unscaled if sign else unscaled).to_bytes(bytes_needed, "big", signed=True)
        except OverflowError:
            raise ValueError(f"at most {size} bytes were expected") from None

    return prepare


_KNOWN: Final[dict[str, Prepare]] = {
    "long-timestamp-millis": _timestamp(_MILLI),
    "long-timestamp-micros": _timestamp(_MICRO),
    "long-local-timestamp-millis": _local_timestamp(_MILLI),
    "long-local-timestamp-micros": _local_timestamp(_MICRO),
    "int-time-millis": _time(_MILLI),
    "long-time-micros": _time(_MICRO),
    "int-date": _date,
    "string-uuid": _uuid,
}
