"""Cast: converts fields, or the whole key or value, to other types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.connect.api.record import ConnectRecord
from moldau.connect.config.model import Problem, key
from moldau.connect.data.schema import Field, Schema, SchemaAndValue, Type
from moldau.connect.data.struct import Struct
from moldau.connect.transforms.casting import TARGETS, cast
from moldau.connect.transforms.sided import (
    JAVA_PACKAGE,
    BySchema,
    KeyOrValueTransform,
    NullReplacement,
    StructReader,
    require_map,
    require_struct,
)

_PURPOSE = "cast types"


class CastConfig(NullReplacement):
    """Settings of Cast."""

    spec: list[str] = key(
        "spec",
        doc="`field:type` for each field, or one type for the whole. Types: int8, int16, int32, "
        "int64, float32, float64, boolean, string; bytes can become a string only.",
        importance="high",
    )

    def check(self) -> Iterable[Problem]:
        if "spec" in self.wrong:
            return
        if not self.spec:
            yield Problem("spec", "Must specify at least one field to cast.")
        for mapping in self.spec:
            name, _, kind = mapping.rpartition(":")
            if ":" in name:
                yield Problem("spec", f"Invalid rename mapping: {mapping}")
            elif kind.strip().upper() not in TARGETS:
                yield Problem("spec", f"Invalid type found in casting spec: {kind.strip()}")
        if len(self.spec) > 1 and any(":" not in mapping for mapping in self.spec):
            yield Problem(
                "spec",
                "Cast transformations that specify a type to cast the entire value to may only "
                "specify a single cast in their spec",
            )


class Cast(KeyOrValueTransform):
    """Converts fields, or the whole key or value, to other types with Java's rules."""

    config_model = CastConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = CastConfig.of(props)
        self._whole: Type | None = None
        self._fields: dict[str, Type] = {}
        for mapping in config.spec:
            name, colon, kind = mapping.rpartition(":")
            if colon:
                self._fields[name.strip()] = TARGETS[kind.strip().upper()]
            else:
                self._whole = TARGETS[kind.strip().upper()]
        self._rows = StructReader(config.replace_null_with_default)
        self._plans = BySchema(self._plan)

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if value is None:
            return None
        if self._whole is not None:
            target = None if schema is None else self._plans(schema)[0]
            return SchemaAndValue(target, cast(schema, value, self._whole))
        if schema is None:
            fields = dict(require_map(value, _PURPOSE))
            for name, kind in self._fields.items():
                fields[name] = cast(None, fields.get(name), kind)
            return SchemaAndValue(None, fields)
        row = self._rows.of(require_struct(value, _PURPOSE))
        target, casts = self._plans(schema)
        for position, before, kind in casts:
            row[position] = cast(before, row[position], kind)
        return SchemaAndValue(target, Struct.of_row(target, row))

    def _plan(self, schema: Schema) -> tuple[Schema, list[tuple[int, Schema, Type]]]:
        """Return the new schema, and position, old schema and new type of each converted field."""
        if self._whole is not None:
            default = cast(schema, schema.default, self._whole)
            return (
                schema.replace_type(self._whole).replace(default=default),
                [],
            )
        members, casts = [], []
        for field in schema.fields:
            kind = self._fields.get(field.name)
            part = field.schema
            if kind is not None:
                casts.append((field.position, part, kind))
                default = cast(part, part.default, kind)
                part = Schema(kind, optional=part.optional, default=default)
            members.append(Field(field.name, field.position, part))
        target = Schema(
            Type.STRUCT,
            schema.optional,
            schema.name,
            schema.version,
            schema.doc,
            schema.parameters,
            fields=tuple(members),
        )
        return target, casts


class CastKey(Cast):
    """Converts keys, or fields of them."""

    java_names = (JAVA_PACKAGE + "Cast$Key",)
    on_key = True


class CastValue(Cast):
    """Converts values, or fields of them."""

    java_names = (JAVA_PACKAGE + "Cast$Value",)
