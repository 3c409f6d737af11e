"""Converts values to other types with Java's rules: integers wrap around, floats are cut off."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from moldau.connect.data import logical
from moldau.connect.data.schema import Logical, Schema, Type
from moldau.connect.data.validation import RANGES
from moldau.connect.errors import DataError
from moldau.connect.header_converters.writing import temporal
from moldau.connect.java.text import java_text, shortest_single, to_single

TARGETS: Mapping[str, Type] = {
    "INT8": Type.INT8,
    "INT16": Type.INT16,
    "INT32": Type.INT32,
    "INT64": Type.INT64,
    "FLOAT32": Type.FLOAT32,
    "FLOAT64": Type.FLOAT64,
    "BOOLEAN": Type.BOOLEAN,
    "STRING": Type.STRING,
}
_SOURCES = frozenset(TARGETS.values()) | {Type.BYTES}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


def cast(schema: Schema | None, value: Any, target: Type) -> Any:
    """Return the value as another type. Raise DataError where Java would reject it."""
    if value is None:
        return None
    if schema is not None and schema.type not in _SOURCES:
        raise DataError(f"Cast transformation does not support casting from {schema.type.value}")
    if target is Type.STRING:
        return _to_string(schema, value)
    if schema is not None and schema.logical is not None:
        value = _encoded(schema, value)
    if isinstance(value, float) and schema is not None and schema.type is Type.FLOAT32:
        value = to_single(value)
    if target in _BITS:
        return _to_integer(value, target)
    if target is Type.BOOLEAN:
        return _to_boolean(value)
    return _to_float(value, target)


def as_single(value: float) -> float:
    """Return a float32 as the number with the fewest digits that identifies it."""
    single = to_single(value)
    return float(shortest_single(single)) if math.isfinite(single) else single


def _unexpected(value: object) -> DataError:
    return DataError(f"Unexpected type in Cast transformation: {type(value).__name__}")


def _encoded(schema: Schema, value: Any) -> Any:
    encoders: Mapping[Logical, Callable[[Any], int]] = {
        Logical.DATE: logical.date_to_days,
        Logical.TIME: logical.time_to_ms,
        Logical.TIMESTAMP: logical.timestamp_to_ms,
    }
    encode = encoders.get(schema.logical) if schema.logical is not None else None
    return value if encode is None or isinstance(value, (int, str)) else encode(value)


def _to_string(schema: Schema | None, value: Any) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (datetime, date, time)):
        return temporal(value)
    if isinstance(value, (str, bool, int, float, Decimal)):
        return java_text(value, schema)
    raise _unexpected(value)


def _out_of_range(value: object) -> DataError:
    return DataError(f"Value ({value}) was out of range for requested data type")


def _to_integer(value: Any, target: Type) -> int:
    if isinstance(value, str):
        if _INTEGER.fullmatch(value) is None:
            raise _out_of_range(value)
        low, high = RANGES[target]
        if not low <= int(value) <= high:
            raise _out_of_range(value)
        return int(value)
    if isinstance(value, (bool, int)):
        return _wrapped(int(value), _BITS[target])
    if isinstance(value, Decimal):
        return _wrapped(int(value), _BITS[target])
    if isinstance(value, float):
        return _wrapped(_saturated(value, max(_BITS[target], 32)), _BITS[target])
    raise _unexpected(value)


def _wrapped(number: int, bits: int) -> int:
    """Return the lowest bits of a number, as two's complement."""
    half = 1 << (bits - 1)
    return (number + half) % (1 << bits) - half


def _saturated(value: float, bits: int) -> int:
    """Return a float as an integer: cut off, and limited to the range of the type."""
    if math.isnan(value):
        return 0
    high = (1 << (bits - 1)) - 1
    if math.isinf(value) or abs(value) > high:
        return high if value > 0 else -high - 1
    return int(value)


def _to_boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float, Decimal)):
        return _to_integer(value, Type.INT64) != 0
    raise _unexpected(value)


def _to_float(value: Any, target: Type) -> float:
    if isinstance(value, str):
        text = value.strip()
        if _FLOAT.fullmatch(text) is None:
            raise _out_of_range(value)
        number = float(text.rstrip("fFdD") if not text.endswith("Infinity") else text)
    elif isinstance(value, (bool, int, float, Decimal)):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf if value > 0 else -math.inf
    else:
        raise _unexpected(value)
    return as_single(number) if target is Type.FLOAT32 else number
