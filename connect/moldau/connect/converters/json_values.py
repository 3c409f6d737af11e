"""Functions that convert values between Connect and the output of a JSON parser, one for each
schema.

A function is made once for a schema and kept, so that a record costs only calls, no decisions.
Java's converter reads `"abc"` under an int32 schema as 0 and cuts 300 down to fit an int8; here a
value that does not fit is a DataError that names the field.
"""

from __future__ import annotations

import base64
import binascii
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import orjson

from moldau.connect.data import logical
from moldau.connect.data.schema import Logical, Schema, Type
from moldau.connect.data.struct import Struct
from moldau.connect.data.validation import RANGES
from moldau.connect.errors import DataError
from moldau.deferred import dataclass

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class JsonTraits:
    """How values are represented in JSON."""

    numeric_decimals: bool = False
    """Whether decimals are numbers; else they are base64 of their bytes."""
    nulls_become_defaults: bool = True


class _BySchema(ABC):
    """Functions that are made once for a schema."""

    def __init__(self, traits: JsonTraits) -> None:
        self._traits = traits
        self._known: dict[Schema, Convert] = {}

    def of(self, schema: Schema) -> Convert:
        """Return the function for a schema. It raises DataError if a value does not fit."""
        known = self._known.get(schema)
        if known is None:
            known = self._known[schema] = self._nullable(schema, self._plain(schema))
        return known

    def clear(self) -> None:
        """Forget all functions."""
        self._known.clear()

    @abstractmethod
    def _nullable(self, schema: Schema, convert: Convert) -> Convert:
        """Return a function that converts null too."""

    @abstractmethod
    def _plain(self, schema: Schema) -> Convert:
        """Return the function for values of a schema that are not null."""


class Readers(_BySchema):
    """The functions from JSON to Connect values, by schema."""

    def _nullable(self, schema: Schema, convert: Convert) -> Convert:
        default = schema.default if self._traits.nulls_become_defaults else None
        if default is None and not schema.optional:

            def required(value: Any) -> Any:
                if value is None:
                    raise DataError(f"null, but {schema.described()} is required")
                return convert(value)

            return required

        def optional(value: Any) -> Any:
            return default if value is None else convert(value)

        return optional

    def _plain(self, schema: Schema) -> Convert:
        if schema.logical is not None:
            return _logical_reader(schema)
        if schema.type in RANGES:
            return _integer_reader(schema)
        match schema.type:
            case Type.STRUCT:
                return self._struct(schema)
            case Type.ARRAY:
                return self._array(schema)
            case Type.MAP:
                return self._map(schema)
            case Type.STRING:
                return _exact(schema, str)
            case Type.BOOLEAN:
                return _exact(schema, bool)
            case Type.BYTES:
                return _base64
        return _float_reader(schema)

    def _struct(self, schema: Schema) -> Convert:
        fields = [(field.name, self.of(field.schema)) for field in schema.fields]
        of_row = Struct.of_row

        def read(value: Any) -> Struct:
            if type(value) is not dict:
                raise _misfit(schema, value)
            get = value.get
            try:
                return of_row(schema, [convert(get(name)) for name, convert in fields])
            except DataError:
                raise _first_misfit(fields, value) from None

        return read

    def _array(self, schema: Schema) -> Convert:
        assert schema.value_schema is not None
        convert = self.of(schema.value_schema)

        def read(value: Any) -> list[Any]:
            if type(value) is not list:
                raise _misfit(schema, value)
            return [convert(item) for item in value]

        return read

    def _map(self, schema: Schema) -> Convert:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        convert, keys = self.of(schema.value_schema), self.of(schema.key_schema)
        if schema.key_schema.type is Type.STRING:

            def read(value: Any) -> dict[str, Any]:
                if type(value) is not dict:
                    raise _misfit(schema, value)
                return {key: convert(item) for key, item in value.items()}

            return read

        def read_pairs(value: Any) -> dict[Any, Any]:
            if type(value) is not list or any(
                type(pair) is not list or len(pair) != 2 for pair in value
            ):
                raise DataError("a map whose keys are not strings is a list of [key, value] pairs")
            try:
                return {keys(key): convert(item) for key, item in value}
            except TypeError:
                raise DataError("a key of a map is an array, a map or a struct") from None

        return read_pairs


def _misfit(schema: Schema, value: object) -> DataError:
    return DataError(f"JSON {_json_type(value)} where the schema has {schema.described()}")


def _first_misfit(fields: list[tuple[str, Convert]], value: Mapping[str, Any]) -> DataError:
    """Return the error of the first field that does not fit, with its name."""
    for name, convert in fields:
        try:
            convert(value.get(name))
        except DataError as error:
            return DataError(f"{name}: {error}")
    raise AssertionError("no field fails the second time")


def _json_type(value: object) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def _exact(schema: Schema, expected: type) -> Convert:
    def read(value: Any) -> Any:
        if type(value) is not expected:
            raise _misfit(schema, value)
        return value

    return read


_DIGITS_MAX = 20
"""More than any integer type has: a larger number is refused before it is expanded."""


def _whole(schema: Schema, value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Decimal) and value.adjusted() < _DIGITS_MAX and value == int(value):
        return int(value)
    raise _misfit(schema, value)


def _integer_reader(schema: Schema) -> Convert:
    low, high = RANGES[schema.type]

    def read(value: Any) -> int:
        if type(value) is not int:
            value = _whole(schema, value)
        if not low <= value <= high:
            raise DataError(f"{value} does not fit into {schema.described()}")
        return int(value)

    return read


_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _float_reader(schema: Schema) -> Convert:
    def read(value: Any) -> float:
        if type(value) is float:
            return value
        if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
            return float(value)
        if isinstance(value, str) and value in _SPECIAL:
            return _SPECIAL[value]
        raise _misfit(schema, value)

    return read


def _base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise DataError("bytes are written as base64 in JSON, and this is none") from None


def _logical_reader(schema: Schema) -> Convert:
    if schema.logical is Logical.DECIMAL:
        return _decimal_reader(schema)
    if schema.logical is Logical.DATE:
        return lambda value: logical.date_from_days(_whole(schema, value))
    if schema.logical is Logical.TIME:
        return lambda value: logical.time_from_ms(_whole(schema, value))
    return lambda value: logical.timestamp_from_ms(_whole(schema, value))


def _decimal_reader(schema: Schema) -> Convert:
    scale = schema.scale

    def read(value: Any) -> Decimal:
        if isinstance(value, str):
            return logical.decimal_from_bytes(_base64(value), scale)
        if isinstance(value, Decimal):
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return Decimal(repr(value))
        raise _misfit(schema, value)

    return read


def has_decimal(schema: Schema) -> bool:
    """Whether numbers under this schema must be read with their exact digits."""
    parts = [field.schema for field in schema.fields]
    parts += [part for part in (schema.key_schema, schema.value_schema) if part is not None]
    return schema.logical is Logical.DECIMAL or any(map(has_decimal, parts))


_LOGICAL: Mapping[Logical, tuple[type, Callable[[Any], int]]] = {
    Logical.DATE: (date, logical.date_to_days),
    Logical.TIME: (time, logical.time_to_ms),
    Logical.TIMESTAMP: (datetime, logical.timestamp_to_ms),
}


class Writers(_BySchema):
    """The functions from Connect values to values that `orjson` writes, by schema."""

    def _nullable(self, schema: Schema, convert: Convert) -> Convert:
        default = schema.default if self._traits.nulls_become_defaults else None

        def write(value: Any) -> Any:
            if value is not None:
                return convert(value)
            if default is not None:
                return convert(default)
            if schema.optional:
                return None
            raise DataError(f"null, but {schema.described()} is required")

        return write

    def _plain(self, schema: Schema) -> Convert:
        if schema.logical is not None:
            return self._logical(schema)
        if schema.type in RANGES:
            return _integer_reader(schema)
        match schema.type:
            case Type.STRUCT:
                return self._struct(schema)
            case Type.ARRAY:
                return self._array(schema)
            case Type.MAP:
                return self._map(schema)
            case Type.STRING:
                return _exact(schema, str)
            case Type.BOOLEAN:
                return _exact(schema, bool)
            case Type.BYTES:
                return _base64_text
        return _float_writer(schema)

    def _logical(self, schema: Schema) -> Convert:
        if schema.logical is Logical.DECIMAL:
            return self._decimal(schema)
        kind, write = _LOGICAL[schema.logical or Logical.TIMESTAMP]

        def convert(value: Any) -> int:
            if not isinstance(value, kind) or (kind is date and isinstance(value, datetime)):
                raise _no_value(schema, value)
            return write(value)

        return convert

    def _decimal(self, schema: Schema) -> Convert:
        scale, is_numeric = schema.scale, self._traits.numeric_decimals

        def convert(value: Any) -> Any:
            if not isinstance(value, Decimal):
                raise _no_value(schema, value)
            if is_numeric:
                if not value.is_finite():
                    raise DataError(f"{value} cannot be written to JSON")
                return orjson.Fragment(str(value))
            return _base64_text(logical.decimal_to_bytes(value, scale))

        return convert

    def _struct(self, schema: Schema) -> Convert:
        fields = [(field.name, self.of(field.schema)) for field in schema.fields]
        converts = [convert for _, convert in fields]
        names = [name for name, _ in fields]

        def write(value: Any) -> dict[str, Any]:
            if not isinstance(value, Struct):
                raise _no_value(schema, value)
            if value.schema is not schema and value.schema != schema:
                raise DataError(f"the value is of another schema than {schema.described()}")
            row = value.row
            try:
                return {
                    name: convert(item)
                    for name, convert, item in zip(names, converts, row, strict=True)
                }
            except DataError:
                raise _first_misfit(fields, dict(zip(names, row, strict=True))) from None

        return write

    def _array(self, schema: Schema) -> Convert:
        assert schema.value_schema is not None
        convert = self.of(schema.value_schema)

        def write(value: Any) -> list[Any]:
            if not isinstance(value, (list, tuple)):
                raise _no_value(schema, value)
            return [convert(item) for item in value]

        return write

    def _map(self, schema: Schema) -> Convert:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        keys, convert = self.of(schema.key_schema), self.of(schema.value_schema)
        is_object = schema.key_schema.type is Type.STRING

        def write(value: Any) -> Any:
            if not isinstance(value, dict):
                raise _no_value(schema, value)
            if is_object:
                return {keys(key): convert(item) for key, item in value.items()}
            return [[keys(key), convert(item)] for key, item in value.items()]

        return write


def _no_value(schema: Schema, value: object) -> DataError:
    return DataError(f"{type(value).__name__} where the schema has {schema.described()}")


def _base64_text(value: Any) -> str:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise DataError(f"{type(value).__name__} where the schema has bytes")
    return base64.b64encode(value).decode("ascii")


def _float_writer(schema: Schema) -> Convert:
    def write(value: Any) -> Any:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise _no_value(schema, value)
        number = float(value)
        return number if math.isfinite(number) else special_text(number)

    return write


def special_text(number: float) -> str:
    """Return the text that Java's converter writes for a number that JSON does not have."""
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")


def schemaless(value: Any) -> Any:
    """Convert a value without a schema for `orjson`, which calls this for unknown types."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _base64_text(value)
    if isinstance(value, Struct):
        return value.to_dict()
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    if isinstance(value, datetime):
        return logical.timestamp_to_ms(value)
    if isinstance(value, date):
        return logical.date_to_days(value)
    if isinstance(value, time):
        return logical.time_to_ms(value)
    raise DataError(f"a value of type {type(value).__name__} cannot be written to JSON")


def with_special_numbers(value: Any) -> Any:
    """Return the value with NaN and infinities as texts, and maps with other keys as lists."""
    if isinstance(value, float):
        return value if math.isfinite(value) else special_text(value)
    if isinstance(value, dict):
        pairs = [(with_special_numbers(k), with_special_numbers(v)) for k, v in value.items()]
        return dict(pairs) if all(isinstance(k, str) for k in value) else [list(p) for p in pairs]
    if isinstance(value, (list, tuple)):
        return [with_special_numbers(item) for item in value]
    return value
