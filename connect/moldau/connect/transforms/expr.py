"""The Expr transform: new fields and filters by expressions, without custom code.

transforms.x.type=Expr$Value
transforms.x.where=amount > 0 and not _topic.startswith("test")
transforms.x.set.total=amount * (1 + vat)
transforms.x.set.label=upper_name if upper_name else "?"
transforms.x.type.total=float64
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from moldau.connect.api.record import ConnectRecord, SinkRecord
from moldau.connect.api.transformation import R
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.data.schema import (
    DATE,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    SchemaAndValue,
    Type,
)
from moldau.connect.data.struct import Struct
from moldau.connect.data.validation import validate
from moldau.connect.errors import DataError
from moldau.connect.transforms.sided import KeyOrValueTransform
from moldau.expressions import Expression, ExpressionError, Scope, member

_TYPES: Mapping[str, Schema] = {
    **{
        word: Schema(kind, optional=True)
        for word, kind in (
            ("int8", Type.INT8), ("int16", Type.INT16), ("int32", Type.INT32),
            ("int64", Type.INT64), ("float32", Type.FLOAT32), ("float64", Type.FLOAT64),
            ("boolean", Type.BOOLEAN), ("string", Type.STRING), ("bytes", Type.BYTES),
        )
    },
    "date": DATE.optionally(),
    "time": TIME.optionally(),
    "timestamp": TIMESTAMP.optionally(),
}  # fmt: skip
_OF_PYTHON: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "int64"),
    (float, "float64"),
    (str, "string"),
    (bytes, "bytes"),
    (datetime, "timestamp"),
    (date, "date"),
    (time, "time"),
)


def compiled(text: str) -> Expression:
    """Return an expression over records of Connect. Raise ExpressionError."""
    return Expression(text, member=_member, failure=DataError)


def _member(owner: Any, name: str) -> Any:
    return owner[name] if isinstance(owner, Struct) else member(owner, name)


class ExprConfig(ConfigModel):
    """Settings of Expr."""

    open_prefixes = ("set.", "type.")

    where: str = key(
        "where", "", doc="Keep only records for which this is true. `set.<field>`: the value of a "
        "field. `type.<field>`: its type, where it does not follow from the value.",
        importance="high",
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        given = {"where": self.where} if self.where else {}
        given |= {f"set.{name}": text for name, text in self.with_prefix("set.").items()}
        if not given:
            yield Problem("where", "Expr needs `where` or at least one `set.<field>`")
        for name, text in given.items():
            try:
                compiled(text)
            except ExpressionError as error:
                yield Problem(name, str(error))
        for name, word in self.with_prefix("type.").items():
            if word not in _TYPES:
                known = ", ".join(_TYPES)
                yield Problem(f"type.{name}", f"String must be one of: {known}")


class Expr(KeyOrValueTransform):
    """Computes fields by expressions, and drops records by a condition."""

    config_model = ExprConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = ExprConfig.of(props)
        self._where = compiled(config.where) if config.where else None
        self._set = [(name, compiled(text)) for name, text in config.with_prefix("set.").items()]
        self._types = {name: _TYPES[word] for name, word in config.with_prefix("type.").items()}
        self._schemas: dict[tuple[int, tuple[str, ...]], tuple[Schema, Schema]] = {}

    def apply(self, record: R) -> R | None:
        if self._where is not None:
            value = record.key if self.on_key else record.value
            if not self._where.value(_scope(record, value)):
                return None
        return super().apply(record) if self._set else record

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if value is None:
            return None
        scope = _scope(record, value)
        found = {name: expression.value(scope) for name, expression in self._set}
        if isinstance(value, dict):
            return SchemaAndValue(schema, {**value, **found})
        if schema is None or not isinstance(value, Struct):
            raise DataError(f"Expr sets fields of structs and maps, not of {type(value).__name__}")
        target = self._schema(schema, found)
        row = value.row + [None] * (len(target.fields) - len(value.row))
        for name, item in found.items():
            position = target.positions[name]
            validate(target.fields[position].schema, item, f"set.{name}")
            row[position] = item
        return SchemaAndValue(target, Struct.of_row(target, row))

    def _schema(self, schema: Schema, found: Mapping[str, Any]) -> Schema:
        """Return the schema with the new fields, computed once for each set of types."""
        words = tuple(_word(value) for value in found.values())
        known = self._schemas.get((id(schema), words))
        if known is not None and known[0] is schema:
            return known[1]
        fields = {field.name: field.schema for field in schema.fields}
        for (name, value), word in zip(found.items(), words, strict=True):
            declared = self._types.get(name)
            if declared is None and value is None and name in fields:
                continue
            fields[name] = declared or _schema_of(word, value)
        members = tuple(Field(name, at, part) for at, (name, part) in enumerate(fields.items()))
        target = dataclasses.replace(schema, fields=members, default=None)
        if len(self._schemas) >= 256:
            self._schemas.clear()
        self._schemas[id(schema), words] = (schema, target)
        return target


def _word(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"decimal {value.as_tuple().exponent}"
    return next((word for kind, word in _OF_PYTHON if isinstance(value, kind)), "string")


def _schema_of(word: str, value: Any) -> Schema:
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return Schema.decimal(-exponent if isinstance(exponent, int) else 0, optional=True)
    if value is not None and not any(isinstance(value, kind) for kind, _ in _OF_PYTHON):
        raise DataError(f"a field cannot become a {type(value).__name__}; declare its type")
    return _TYPES[word]


def _scope(record: ConnectRecord, value: Any) -> Scope:
    """Return a lookup for names in expressions: fields of the value, or facts of the record."""

    def look_up(name: str) -> Any:
        match name:
            case "_topic":
                return record.topic
            case "_partition":
                return record.kafka_partition
            case "_offset":
                return record.offset if isinstance(record, SinkRecord) else None
            case "_timestamp":
                return record.timestamp
            case "_key":
                return record.key
            case "_value":
                return record.value
            case "_headers":
                return {header.key: header.value for header in record.headers}
        if isinstance(value, Struct):
            return value[name]
        if isinstance(value, dict):
            return value.get(name)
        raise DataError(f"there is no field {name!r} in a {type(value).__name__}; use _value")

    return look_up


class ExprKey(Expr):
    """Computes fields of the key by expressions, and drops records by a condition on it."""

    on_key = True


class ExprValue(Expr):
    """Computes fields of the value by expressions, and drops records by a condition on it."""
