"""Transforms that extract a field, wrap a value, make a key, or flatten nested values:
ExtractField, HoistField, ValueToKey, Flatten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.connect.api.record import ConnectRecord
from moldau.connect.api.transformation import R, Transformation
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.data.schema import Schema, SchemaAndValue, Type
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError
from moldau.connect.transforms.paths import (
    WithPaths,
    parse_path,
    schema_at,
    value_in_map,
    value_in_struct,
)
from moldau.connect.transforms.sided import (
    JAVA_PACKAGE,
    BySchema,
    KeyOrValueTransform,
    NullReplacement,
    StructReader,
    basics,
    names_of,
    require_map,
    require_struct,
)


class ExtractFieldConfig(NullReplacement, WithPaths):
    """Settings of ExtractField."""

    field: str = key("field", doc="The field to take.")

    def check(self) -> Iterable[Problem]:
        if not {"field", "field.syntax.version"} & self.wrong:
            try:
                parse_path(self.field, self.field_syntax_version)
            except ValueError as error:
                yield Problem("field", str(error))


class ExtractField(KeyOrValueTransform):
    """Replaces the key or value by one of its fields."""

    config_model = ExtractFieldConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = ExtractFieldConfig.of(props)
        self._name = config.field
        self._path = parse_path(config.field, config.field_syntax_version)
        self._replace = config.replace_null_with_default

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if schema is None:
            fields = None if value is None else require_map(value, "field extraction")
            return SchemaAndValue(None, value_in_map(fields, self._path))
        struct = None if value is None else require_struct(value, "field extraction")
        found = schema_at(schema, self._path)
        if found is None:
            raise DataError(f"Unknown field: {self._name}")
        return SchemaAndValue(found, value_in_struct(struct, self._path, self._replace))


class ExtractFieldKey(ExtractField):
    """Replaces the key by one of its fields."""

    java_names = (JAVA_PACKAGE + "ExtractField$Key",)
    on_key = True


class ExtractFieldValue(ExtractField):
    """Replaces the value by one of its fields."""

    java_names = (JAVA_PACKAGE + "ExtractField$Value",)


class HoistFieldConfig(ConfigModel):
    """Settings of HoistField."""

    field: str = key("field", doc="The name of the one field that holds the whole.")


class HoistField(KeyOrValueTransform):
    """Wraps the key or value as the only field of a struct or map."""

    config_model = HoistFieldConfig

    def configure(self, props: Mapping[str, str]) -> None:
        self._field = HoistFieldConfig.of(props).field
        self._schemas = BySchema(lambda schema: Schema.struct({self._field: schema}))

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if schema is None:
            return SchemaAndValue(None, {self._field: value})
        hoisted = self._schemas(schema)
        if value is None and not schema.optional and schema.default is None:
            raise DataError(f"null, but {schema.described()} is required", field=self._field)
        return SchemaAndValue(hoisted, Struct.of_row(hoisted, [value]))


class HoistFieldKey(HoistField):
    """Wraps the key."""

    java_names = (JAVA_PACKAGE + "HoistField$Key",)
    on_key = True


class HoistFieldValue(HoistField):
    """Wraps the value."""

    java_names = (JAVA_PACKAGE + "HoistField$Value",)


class ValueToKeyConfig(NullReplacement, WithPaths):
    """Settings of ValueToKey."""

    fields_: list[str] = key("fields", doc="The fields of the value.", importance="high")

    def check(self) -> Iterable[Problem]:
        if "fields" in self.wrong:
            return
        yield from names_of("fields", self.fields_)
        for path in self.fields_ if "field.syntax.version" not in self.wrong else ():
            try:
                parse_path(path, self.field_syntax_version)
            except ValueError as error:
                yield Problem("fields", str(error))


class ValueToKey(Transformation):
    """Replaces the key by a struct or map of fields of the value. A nested field has its path as
    its name there."""

    java_names = (JAVA_PACKAGE + "ValueToKey",)
    config_model = ValueToKeyConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = ValueToKeyConfig.of(props)
        syntax = config.field_syntax_version
        self._paths = {name: parse_path(name, syntax) for name in config.fields_}
        self._is_nested = any(len(path) > 1 for path in self._paths.values())
        self._replace = config.replace_null_with_default
        self._rows = StructReader(config.replace_null_with_default)
        self._plans = BySchema(self._plan)

    def apply(self, record: R) -> R | None:
        purpose = "copying fields from value to key"
        copy = record.copy()
        if record.value_schema is None:
            value = require_map(record.value, purpose)
            copy.key_schema = None
            copy.key = {name: value_in_map(value, path) for name, path in self._paths.items()}
            return copy
        struct = require_struct(record.value, purpose)
        copy.key_schema, positions = self._plans(struct.schema)
        copy.key = self._key(struct, copy.key_schema, positions)
        return copy

    def _key(self, struct: Struct, schema: Schema, positions: list[int]) -> Struct:
        if not self._is_nested:
            row = self._rows.of(struct)
            return Struct.of_row(schema, [row[position] for position in positions])
        # A part of a path may be null where the field at its end may not.
        paths = self._paths.items()
        values = {name: value_in_struct(struct, path, self._replace) for name, path in paths}
        return Struct(schema, values).validate()

    def _plan(self, schema: Schema) -> tuple[Schema, list[int]]:
        """Return the schema of the key, and where the fields are if none is nested."""
        found = {}
        for name, path in self._paths.items():
            part = schema_at(schema, path)
            if part is None:
                raise DataError(f"Field does not exist: {name}")
            found[name] = part
        positions = (
            [] if self._is_nested else [schema.positions[p[0]] for p in self._paths.values()]
        )
        return Schema.struct(found), positions


class FlattenConfig(ConfigModel):
    """Settings of Flatten."""

    delimiter: str = key("delimiter", ".", doc="What stands between the names of the levels.")


class Flatten(KeyOrValueTransform):
    """Makes nested structs or maps one level deep; arrays are not changed."""

    config_model = FlattenConfig

    def configure(self, props: Mapping[str, str]) -> None:
        self._delimiter = FlattenConfig.of(props).delimiter
        self._schemas = BySchema(self._flat_schema)

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if value is None:
            return None
        if schema is None:
            flat: dict[str, Any] = {}
            self._flatten_map(require_map(value, "flattening"), "", flat)
            return SchemaAndValue(None, flat)
        flat_schema = self._schemas(schema)
        row: list[Any] = []
        _flatten_struct(schema, require_struct(value, "flattening"), row)
        return SchemaAndValue(flat_schema, Struct.of_row(flat_schema, row))

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _flatten_map(self, value: dict[str, Any], prefix: str, into: dict[str, Any]) -> None:
        for name, item in value.items():
            full = self._name(prefix, name)
            if isinstance(item, dict):
                self._flatten_map(item, full, into)
            elif isinstance(item, Struct):
                raise DataError(
                    "Flatten transformation does not support Struct for record without schemas "
                    f"(for field {full})."
                )
            else:
                into[full] = item

    def _flat_schema(self, schema: Schema) -> Schema:
        members: list[tuple[str, Schema]] = []
        self._collect(schema, "", schema.optional, schema.default, members)
        return basics(schema, members)

    def _collect(
        self,
        schema: Schema,
        prefix: str,
        optional: bool,
        default: Struct | None,
        into: list[tuple[str, Schema]],
    ) -> None:
        for field in schema.fields:
            name, part = self._name(prefix, field.name), field.schema
            own = part.default
            if own is None and default is not None:
                own = default[field.name]
            if part.type is Type.STRUCT:
                self._collect(part, name, optional or part.optional, own, into)
            elif part.type is Type.MAP:
                raise DataError(
                    "Flatten transformation does not support MAP for record with schemas "
                    f"(for field {name})."
                )
            else:
                into.append((name, part.replace(optional=optional or part.optional, default=own)))


def _flatten_struct(schema: Schema, struct: Struct | None, row: list[Any]) -> None:
    """Append the values of all fields; None for each field of a missing struct."""
    for field in schema.fields:
        if field.schema.type is Type.STRUCT:
            part = None if struct is None else struct.stored(field.name)
            _flatten_struct(field.schema, part, row)
        else:
            row.append(None if struct is None else struct[field.name])


class FlattenKey(Flatten):
    """Flattens keys."""

    java_names = (JAVA_PACKAGE + "Flatten$Key",)
    on_key = True


class FlattenValue(Flatten):
    """Flattens values."""

    java_names = (JAVA_PACKAGE + "Flatten$Value",)
