"""Values as Java's `toString` writes them: `1.0E10`, `true`, `{a=1, b=[x, y]}`, `Struct{a=1}`.

Some configs depend on it (StringConverter, Cast to string). Dates are written in ISO 8601, where
Java writes its time zone; bytes are rejected, where Java writes an address in memory.
"""

from __future__ import annotations

import math
import struct
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from moldau.connect.data.schema import Schema, Type
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError


def java_text(value: Any, schema: Schema | None = None) -> str:
    """Return the result of `value.toString()` in Java."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_float(value, schema is not None and schema.type is Type.FLOAT32)
    if isinstance(value, Struct):
        pairs = zip(value.schema.fields, value.row, strict=True)
        shown = (f"{f.name}={java_text(v, f.schema)}" for f, v in pairs if v is not None)
        return f"Struct{{{','.join(shown)}}}"
    if isinstance(value, dict):
        keys, values = (schema.key_schema, schema.value_schema) if schema else (None, None)
        shown = (f"{java_text(k, keys)}={java_text(v, values)}" for k, v in value.items())
        return f"{{{', '.join(shown)}}}"
    if isinstance(value, (list, tuple)):
        items = schema.value_schema if schema else None
        return f"[{', '.join(java_text(item, items) for item in value)}]"
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, (int, Decimal, date, time)):
        return str(value)
    raise DataError(f"a value of type {type(value).__name__} has no text")


def java_float(value: float, is_single: bool = False) -> str:
    """Return the result of `Double.toString`, or of `Float.toString` for a single."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    number = Decimal(shortest_single(value) if is_single else repr(value))
    if not number:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    if Decimal("1e-3") <= abs(number) < Decimal("1e7"):
        plain = f"{number:f}"
        return plain if "." in plain else plain + ".0"
    sign, digits, exponent = number.normalize().as_tuple()
    assert isinstance(exponent, int)
    rest = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{rest}E{exponent + len(digits) - 1}"


def shortest_single(value: float) -> str:
    """Return the shortest digits that identify this number among the singles (32 bits)."""
    single = to_single(value)
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if to_single(float(text)) == single:
            return text
    return repr(single)


def to_single(value: float) -> float:
    """Return the nearest single (32 bits)."""
    try:
        (single,) = struct.unpack(">f", struct.pack(">f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(single)
