"""MaskField: replaces the values of fields and keeps their types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from moldau.connect.api.record import ConnectRecord
from moldau.connect.config.model import Problem, key
from moldau.connect.data import logical
from moldau.connect.data.schema import Schema, SchemaAndValue, Type
from moldau.connect.data.struct import Struct
from moldau.connect.data.validation import RANGES
from moldau.connect.errors import DataError
from moldau.connect.transforms.casting import as_single
from moldau.connect.transforms.paths import WithPaths, map_with, parse_path, struct_with
from moldau.connect.transforms.sided import (
    JAVA_PACKAGE,
    KeyOrValueTransform,
    NullReplacement,
    StructReader,
    names_of,
    require_map,
    require_struct,
)

_PURPOSE = "mask fields"


class MaskFieldConfig(NullReplacement, WithPaths):
    """Settings of MaskField."""

    fields_: list[str] = key("fields", doc="The fields to mask.", importance="high")
    replacement: str | None = key(
        "replacement",
        None,
        doc="What numbers and strings become; without it 0, false or an empty text.",
        importance="low",
    )

    def check(self) -> Iterable[Problem]:
        if "fields" not in self.wrong:
            yield from names_of("fields", self.fields_)
        if self.replacement == "":
            yield Problem(
                "replacement",
                "Invalid value  for configuration replacement: String must be non-empty",
            )
        for path in self.fields_ or ():
            try:
                parse_path(path, self.field_syntax_version)
            except ValueError as error:
                yield Problem("fields", str(error))


class MaskField(KeyOrValueTransform):
    """Replaces the values of fields by an empty or a given value. A null is not replaced."""

    config_model = MaskFieldConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = MaskFieldConfig.of(props)
        self._paths = [parse_path(path, config.field_syntax_version) for path in config.fields_]
        self._replacement = config.replacement
        self._rows = StructReader(config.replace_null_with_default)

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if schema is None:
            fields = require_map(value, _PURPOSE)
            for path in self._paths:
                fields = map_with(fields, path, self._masked)
            return SchemaAndValue(None, fields)
        struct = require_struct(value, _PURPOSE)
        masked = Struct.of_row(struct.schema, self._rows.of(struct))
        for path in self._paths:
            if path[0] in masked:
                masked = struct_with(masked, masked.schema, path, self._masked)
        return SchemaAndValue(schema, masked)

    def _masked(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        if self._replacement is None:
            return _emptied(value)
        return _replaced(schema, value, self._replacement)


def _emptied(value: Any) -> Any:
    for kind, empty in (
        (bool, False),
        (int, 0),
        (float, 0.0),
        (str, ""),
        (Decimal, Decimal(0)),
        (datetime, logical.EPOCH),
        (date, date(1970, 1, 1)),
        (time, time()),
    ):
        if isinstance(value, kind):
            return empty
    if isinstance(value, list):
        return []
    if isinstance(value, dict):
        return {}
    raise DataError(f"Cannot mask value of type: {type(value).__name__}")


def _replaced(schema: Schema | None, value: Any, replacement: str) -> Any:
    if isinstance(value, str):
        return replacement
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise DataError(
            f"Cannot mask value of type {type(value).__name__} with custom replacement."
        )
    try:
        number = Decimal(replacement)
    except InvalidOperation:
        raise DataError(f"Unable to convert {replacement} to a number") from None
    if isinstance(value, Decimal):
        return number
    if isinstance(value, float):
        is_single = schema is not None and schema.type is Type.FLOAT32
        return as_single(float(number)) if is_single else float(number)
    if not number.is_finite():
        raise DataError(f"Unable to convert {replacement} to a whole number")
    whole = int(number)
    low, high = RANGES[schema.type if schema is not None else Type.INT64]
    if not low <= whole <= high:
        raise DataError(f"the replacement {replacement} does not fit into the field")
    return whole


class MaskFieldKey(MaskField):
    """Masks fields of the key."""

    java_names = (JAVA_PACKAGE + "MaskField$Key",)
    on_key = True


class MaskFieldValue(MaskField):
    """Masks fields of the value."""

    java_names = (JAVA_PACKAGE + "MaskField$Value",)
