"""Read a JSON object into a dict of the values that its columns hold, as Spark's `from_json` does.

The reader is slower than Arrow's, but it knows maps, and it reads what Arrow refuses: a number as
text, a time with nanoseconds, a number of seconds as a time, and bytes in base64.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Final

import pyarrow as pa

from moldau.errors import ConfigError

Convert = Callable[[Any], Any]
"""Turns a JSON value that is not null into a value of a column. Raises ValueError if none fits."""

_DATE: Final = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})(?:[ T].*)?")
_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?)?"
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOT_FINITE: Final = {
    "NaN": float("nan"),
    "Infinity": float("inf"), "INF": float("inf"), "+INF": float("inf"),
    "-Infinity": float("-inf"), "-INF": float("-inf"),
}  # fmt: skip


def json_reader(kind: Any, what: str) -> Callable[[bytes], dict[str, Any]]:
    """Return a function that reads one JSON object into a dict for this struct.

    `what` is `key` or `value`. Raises ConfigError if JSON has no value for a column's type."""
    convert = _converter(kind, what)

    def read(value: bytes) -> dict[str, Any]:
        found: dict[str, Any] = convert(json.loads(value.decode(), parse_float=Decimal))
        return found

    return read


def _converter(kind: Any, path: str) -> Convert:
    if pa.types.is_struct(kind):
        return _to_struct(kind, path)
    if pa.types.is_list(kind):
        return _to_list(_nullable(_converter(kind.value_type, f"{path}[]")))
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise _unknown_type(path, kind)
        return _to_map(_nullable(_converter(kind.item_type, f"{path}[]")))
    if pa.types.is_decimal(kind):
        return _to_decimal(Decimal(1).scaleb(-kind.scale))
    if pa.types.is_timestamp(kind):
        return _to_local_timestamp if kind.tz is None else _to_timestamp
    for matches, convert in _PLAIN:
        if matches(kind):
            return convert
    raise _unknown_type(path, kind)


def _unknown_type(path: str, kind: Any) -> ConfigError:
    what, _, field = path.partition(".")
    return ConfigError(
        "JSON has no value for this type: read the field as STRING, and convert it in the query",
        option=f"{what}.schema",
        field=field,
        type=str(kind),
    )


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _to_struct(kind: Any, path: str) -> Convert:
    fields = [(each.name, _converter(each.type, f"{path}.{each.name}")) for each in kind]

    def convert(value: Any) -> dict[str, Any]:
        _need(value, dict)
        found = {}
        for name, of_field in fields:
            given = value.get(name)
            found[name] = None if given is None else of_field(given)
        return found

    return convert


def _to_list(of_element: Convert) -> Convert:
    return lambda value: [of_element(each) for each in _need(value, list)]


def _to_map(of_element: Convert) -> Convert:
    return lambda value: [(key, of_element(each)) for key, each in _need(value, dict).items()]


def _to_decimal(step: Decimal) -> Convert:
    def convert(value: Any) -> Decimal:
        given = _need(value, int, Decimal, str)
        return Decimal(given).quantize(step, ROUND_HALF_UP)

    return convert


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return str(float(value))
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=float)


def _to_float(value: Any) -> float:
    if isinstance(value, str):
        return _NOT_FINITE[value]
    return float(_need(value, int, float, Decimal))


def _to_timestamp(value: Any) -> datetime:
    if not isinstance(value, str):
        return _EPOCH + timedelta(seconds=_need(value, int))
    found = _to_local_timestamp(value)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _to_local_timestamp(value: Any) -> datetime:
    if _TIME.fullmatch(_need(value, str)) is None:
        raise ValueError(value)
    return datetime.fromisoformat(value)


def _to_date(value: Any) -> date:
    found = _DATE.fullmatch(_need(value, str))
    if found is None:
        raise ValueError(value)
    year, month, day = map(int, found.groups())
    return date(year, month, day)


def _to_bytes(value: Any) -> bytes:
    return base64.b64decode(_need(value, str), validate=True)


def _to_int(value: Any) -> int:
    found: int = _need(value, int)
    return found


def _to_bool(value: Any) -> bool:
    if value is not True and value is not False:
        raise ValueError(value)
    return value


def _need(value: Any, *kinds: type) -> Any:
    """Return the value if it is of one of these types. `true` is not a number."""
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ValueError(value)
    return value


_PLAIN: Final[tuple[tuple[Callable[[Any], bool], Convert], ...]] = (
    (pa.types.is_string, _to_text),
    (pa.types.is_integer, _to_int),
    (pa.types.is_floating, _to_float),
    (pa.types.is_boolean, _to_bool),
    (pa.types.is_date, _to_date),
    (pa.types.is_binary, _to_bytes),
)
