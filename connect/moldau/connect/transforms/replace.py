"""ReplaceField drops and renames fields, SetSchemaMetadata names and numbers a schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.connect.api.record import ConnectRecord
from moldau.connect.config.model import Problem, key
from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError
from moldau.connect.transforms.sided import (
    JAVA_PACKAGE,
    BySchema,
    NullReplacing,
    Rows,
    Sided,
    basics,
    names_of,
    require_map,
    require_struct,
)


class ReplaceFieldConfig(NullReplacing):
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


class ReplaceField(Sided):
    """Drops and renames fields; their order stays."""

    config_model = ReplaceFieldConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = ReplaceFieldConfig.of(props)
        self._exclude, self._include = frozenset(config.exclude), frozenset(config.include)
        self._renames = dict(mapping.split(":") for mapping in config.renames)
        self._rows = Rows(config.replace_null_with_default)
        self._plans = BySchema(self._plan)

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if value is None:
            return None
        if schema is None:
            fields = require_map(value, "field replacement")
            kept = {
                self._renames.get(name, name): item
                for name, item in fields.items()
                if self._keeps(name)
            }
            return SchemaAndValue(None, kept)
        struct = require_struct(value, "field replacement")
        target, positions = self._plans(struct.schema)
        row = self._rows.of(struct)
        return SchemaAndValue(target, Struct.of_row(target, [row[at] for at in positions]))

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _plan(self, schema: Schema) -> tuple[Schema, list[int]]:
        kept = [field for field in schema.fields if self._keeps(field.name)]
        target = basics(schema, ((self._renames.get(f.name, f.name), f.schema) for f in kept))
        return target, [field.position for field in kept]


class ReplaceFieldKey(ReplaceField):
    """Fields of the key."""

    java_names = (JAVA_PACKAGE + "ReplaceField$Key",)
    on_key = True


class ReplaceFieldValue(ReplaceField):
    """Fields of the value."""

    java_names = (JAVA_PACKAGE + "ReplaceField$Value",)


class SetSchemaMetadataConfig(NullReplacing):
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


class SetSchemaMetadata(Sided):
    """Gives a schema a name, a version, or both."""

    config_model = SetSchemaMetadataConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = SetSchemaMetadataConfig.of(props)
        self._name, self._version = config.schema_name, config.schema_version
        self._rows = Rows(config.replace_null_with_default)
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
    """The schema of the key."""

    java_names = (JAVA_PACKAGE + "SetSchemaMetadata$Key",)
    on_key = True


class SetSchemaMetadataValue(SetSchemaMetadata):
    """The schema of the value."""

    java_names = (JAVA_PACKAGE + "SetSchemaMetadata$Value",)
