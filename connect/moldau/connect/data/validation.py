"""Checks that a value fits its schema. The error says where it does not, and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from moldau.connect.data.schema import Logical, Schema, Type
from moldau.connect.errors import DataError

if TYPE_CHECKING:
    from moldau.connect.data.struct import Struct

RANGES: Mapping[Type, tuple[int, int]] = {
    Type.INT8: (-(2**7), 2**7 - 1),
    Type.INT16: (-(2**15), 2**15 - 1),
    Type.INT32: (-(2**31), 2**31 - 1),
    Type.INT64: (-(2**63), 2**63 - 1),
}
_PYTHON: Mapping[Type, tuple[type, ...]] = {
    Type.FLOAT32: (float, int),
    Type.FLOAT64: (float, int),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
}


def validate(schema: Schema, value: Any, where: str = "the value") -> None:
    """Raise DataError if `value` does not fit; `where` names the value in the message."""
    if value is None:
        if not schema.optional and schema.default is None:
            raise DataError(f"{where} is null, but its schema requires {schema.described()}")
        return
    kind = schema.type
    if schema.logical is not None:
        _check_logical(schema, value, where)
    elif kind in RANGES:
        _check_integer(schema, value, where)
    elif kind in _PYTHON:
        is_of_type = isinstance(value, _PYTHON[kind])
        if not is_of_type or (isinstance(value, bool) and kind is not Type.BOOLEAN):
            raise _misfit(schema, value, where)
    elif kind is Type.STRUCT:
        _check_struct(schema, value, where)
    elif kind is Type.ARRAY:
        if not isinstance(value, (list, tuple)):
            raise _misfit(schema, value, where)
        for index, item in enumerate(value):
            validate(_part(schema.value_schema), item, f"{where}[{index}]")
    else:
        if not isinstance(value, dict):
            raise _misfit(schema, value, where)
        for key, item in value.items():
            validate(_part(schema.key_schema), key, f"a key of {where}")
            validate(_part(schema.value_schema), item, f"{where}[{key!r}]")


def validate_default(schema: Schema) -> None:
    """Raise DataError if the default does not fit. The schema of a struct default has no default
    itself, so only its fields are compared with those of `schema`."""
    from moldau.connect.data.struct import Struct

    where, default = "the default value", schema.default
    if schema.type is Type.STRUCT and isinstance(default, Struct):
        if default.schema.fields != schema.fields:
            raise DataError(f"{where} is a struct of another schema than {schema.described()}")
        check_fields(default, where)
    else:
        validate(schema, default, where)


def _part(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("an array or map schema does not name the schemas of its parts")
    return schema


def _misfit(schema: Schema, value: object, where: str) -> DataError:
    return DataError(
        f"{where} is of Python type {type(value).__name__}, but its schema is {schema.described()}"
    )


def _check_integer(schema: Schema, value: object, where: str) -> None:
    if type(value) is not int and (not isinstance(value, int) or isinstance(value, bool)):
        raise _misfit(schema, value, where)
    low, high = RANGES[schema.type]
    if not low <= value <= high:
        raise DataError(f"{where} is {value}, which does not fit into {schema.described()}")


def _check_struct(schema: Schema, value: object, where: str) -> None:
    from moldau.connect.data.struct import Struct

    if not isinstance(value, Struct):
        raise _misfit(schema, value, where)
    if value.schema is not schema and value.schema != schema:
        raise DataError(f"{where} is a struct of another schema than {schema.described()}")
    check_fields(value, where)


def check_fields(struct: Struct, where: str) -> None:
    """Raise DataError for the first field that does not fit."""
    for field, value in zip(struct.schema.fields, struct.row, strict=True):
        validate(field.schema, value, f"field {field.name!r} of {where}")


def _check_logical(schema: Schema, value: object, where: str) -> None:
    if schema.logical is Logical.DECIMAL:
        fits = isinstance(value, Decimal)
    elif schema.logical is Logical.DATE:
        fits = isinstance(value, date) and not isinstance(value, datetime)
    elif schema.logical is Logical.TIME:
        fits = isinstance(value, time)
    else:
        fits = isinstance(value, datetime)
        if isinstance(value, datetime) and value.tzinfo is None:
            raise DataError(f"{where} is a datetime without a time zone; give it one, such as UTC")
    if not fits:
        raise _misfit(schema, value, where)
