"""ReplaceField drops and renames fields, SetSchemaMetadata sets a schema's name and version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from moldau.connect.api.record import ConnectRecord
from moldau.connect.config.model import Problem, key
from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError
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

_NAMES_MAX = 10_000


class ReplaceFieldConfig(NullReplacement):
    """Settings of ReplaceField."""

    exclude: list[str] = key("exclude", [], doc="Fields to drop; wins over `include`.")
    include: list[str] = key("include", [], doc="The only fields to keep; empty for all.")
    renames: list[str] = key("renames", [], doc="New names, as `old:new`.")

    def check(self) -> Iterable[Problem]:
        yield from names_of("exclude", self.exclude, may_be_empty=True)
        yield from names_of("include", self.include, may_be_empty=True)
        for mapping in self.renames:
            old, colon, new = mapping.partition(":")
            if not (old and colon and new) or ":" in new:
                yield Problem(
                    "renames",
                    f"Invalid value [{', '.join(self.renames)}] for configuration renames: "
                    f"Invalid rename mapping: {mapping}",
                )


class ReplaceField(KeyOrValueTransform):
    """Drops and renames fields. Their order does not change."""

    config_model = ReplaceFieldConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = ReplaceFieldConfig.of(props)
        self._exclude, self._include = frozenset(config.exclude), frozenset(config.include)
        self._renames = dict(mapping.split(":") for mapping in config.renames)
        self._rows = StructReader(config.replace_null_with_default)
        self._plans = BySchema(self._plan)
        self._names = _Names(self._new_name)

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if value is None:
            return None
        if schema is None:
            fields = require_map(value, "field replacement")
            names = self._names
            kept = {names[name]: item for name, item in fields.items() if names[name] is not None}
            return SchemaAndValue(None, kept)
        struct = require_struct(value, "field replacement")
        target, positions = self._plans(struct.schema)
        row = self._rows.of(struct)
        return SchemaAndValue(target, Struct.of_row(target, [row[at] for at in positions]))

    def _new_name(self, name: str) -> str | None:
        """Return the new name of a field; None if it is dropped."""
        if name in self._exclude or (self._include and name not in self._include):
            return None
        return self._renames.get(name, name)

    def _plan(self, schema: Schema) -> tuple[Schema, list[int]]:
        named = [(self._new_name(field.name), field) for field in schema.fields]
        kept = [(name, field) for name, field in named if name is not None]
        target = basics(schema, ((name, field.schema) for name, field in kept))
        return target, [field.position for _, field in kept]


class _Names(dict[str, str | None]):
    """New names by old ones, each computed once."""

    def __init__(self, new_name: Callable[[str], str | None]) -> None:
        super().__init__()
        self._new_name = new_name

    def __missing__(self, name: str) -> str | None:
        new = self._new_name(name)
        if len(self) < _NAMES_MAX:
            self[name] = new
        return new


class ReplaceFieldKey(ReplaceField):
    """Drops and renames fields of the key."""

    java_names = (JAVA_PACKAGE + "ReplaceField$Key",)
    on_key = True


class ReplaceFieldValue(ReplaceField):
    """Drops and renames fields of the value."""

    java_names = (JAVA_PACKAGE + "ReplaceField$Value",)


class SetSchemaMetadataConfig(NullReplacement):
    """Settings of SetSchemaMetadata."""

    schema_name: str | None = key(
        "schema.name", None, doc="The name of the schema.", importance="high"
    )
    schema_version: int | None = key(
        "schema.version", None, doc="The version of the schema.", importance="high"
    )

    def check(self) -> Iterable[Problem]:
        if (
            self.schema_name is None
            and self.schema_version is None
            and "schema.version" not in self.wrong
        ):
            yield Problem("schema.name", "Neither schema name nor version configured")


class SetSchemaMetadata(KeyOrValueTransform):
    """Sets the name or the version of a schema, or both."""

    config_model = SetSchemaMetadataConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = SetSchemaMetadataConfig.of(props)
        self._name, self._version = config.schema_name, config.schema_version
        self._rows = StructReader(config.replace_null_with_default)
        self._schemas = BySchema(self._renamed)

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if schema is None:
            if value is None:
                return None
            raise DataError("Schema required for [updating schema metadata]")
        target = self._schemas(schema)
        if isinstance(value, Struct):
            value = Struct.of_row(target, self._rows.of(value))
        return SchemaAndValue(target, value)

    def _renamed(self, schema: Schema) -> Schema:
        default = schema.default
        named = schema.replace(
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
            default=None,
        )
        if isinstance(default, Struct):
            default = Struct.of_row(named, default.row)
        return named if default is None else named.replace(default=default)


class SetSchemaMetadataKey(SetSchemaMetadata):
    """Sets name and version of the key's schema."""

    java_names = (JAVA_PACKAGE + "SetSchemaMetadata$Key",)
    on_key = True


class SetSchemaMetadataValue(SetSchemaMetadata):
    """Sets name and version of the value's schema."""

    java_names = (JAVA_PACKAGE + "SetSchemaMetadata$Value",)
