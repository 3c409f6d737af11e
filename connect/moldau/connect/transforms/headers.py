"""Transforms of headers: DropHeaders, InsertHeader, HeaderFrom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from moldau.connect.api.record import ConnectRecord
from moldau.connect.api.transformation import R, Transformation
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.data.headers import Header
from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError
from moldau.connect.header_converters.sniffing import sniffed
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


class DropHeadersConfig(ConfigModel):
    """Settings of DropHeaders."""

    headers: list[str] = key("headers", doc="The keys of the headers to drop.", importance="high")

    def check(self) -> Iterable[Problem]:
        if "headers" not in self.wrong:
            yield from names_of("headers", self.headers)


class DropHeaders(Transformation):
    """Drops headers by their keys."""

    java_names = (JAVA_PACKAGE + "DropHeaders",)
    config_model = DropHeadersConfig

    def configure(self, props: Mapping[str, str]) -> None:
        self._headers = frozenset(DropHeadersConfig.of(props).headers)

    def apply(self, record: R) -> R | None:
        copy = record.copy()
        copy.headers = record.headers.without(self._headers)
        return copy


class InsertHeaderConfig(ConfigModel):
    """Settings of InsertHeader."""

    header: str = key("header", doc="The key of the header.", importance="high")
    value: str = key(
        "value.literal", doc="The value; its type is guessed from its looks.", importance="high"
    )


class InsertHeader(Transformation):
    """Adds the same header to each record."""

    java_names = (JAVA_PACKAGE + "InsertHeader",)
    config_model = InsertHeaderConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = InsertHeaderConfig.of(props)
        schema, value = sniffed(config.value)
        self._header = Header(config.header, value, schema)

    def apply(self, record: R) -> R | None:
        copy = record.copy()
        copy.headers = record.headers.copy()
        copy.headers.append(self._header)
        return copy


class HeaderFromConfig(NullReplacement):
    """Settings of HeaderFrom."""

    fields_: list[str] = key("fields", doc="The fields to copy or move.", importance="high")
    headers: list[str] = key("headers", doc="The header for each of them.", importance="high")
    operation: Literal["move", "copy"] = key(
        "operation", doc="move drops the field, copy keeps it.", importance="high"
    )

    def check(self) -> Iterable[Problem]:
        for name, values in (("fields", self.fields_), ("headers", self.headers)):
            if name not in self.wrong and not values:
                yield Problem(name, f"Invalid value [] for configuration {name}: Empty list")
        if not {"fields", "headers"} & self.wrong and len(self.fields_) != len(self.headers):
            yield Problem(
                "headers",
                "'fields' config must have the same number of elements as 'headers' config.",
            )


class HeaderFrom(KeyOrValueTransform):
    """Copies or moves fields of the key or value into headers."""

    config_model = HeaderFromConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = HeaderFromConfig.of(props)
        self._pairs = tuple(zip(config.fields_, config.headers, strict=True))
        self._fields = frozenset(config.fields_)
        self._is_move = config.operation == "move"
        self._purpose = f"header {config.operation}"
        self._rows = StructReader(config.replace_null_with_default)
        self._kept = BySchema(self._without_fields)

    def apply(self, record: R) -> R | None:
        changed = super().apply(record)
        if changed is None:
            return None
        schema = record.key_schema if self.on_key else record.value_schema
        value = record.key if self.on_key else record.value
        if changed is record:
            changed = record.copy()
        changed.headers = record.headers.copy()
        changed.headers.extend(self._headers(schema, value))
        return changed

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if schema is None:
            fields = require_map(value, self._purpose)
            if not self._is_move:
                return None
            kept = {name: item for name, item in fields.items() if name not in self._fields}
            return SchemaAndValue(None, kept)
        struct = require_struct(value, self._purpose)
        if not self._is_move:
            return None
        kept_schema, positions = self._kept(schema)
        row = self._rows.of(struct)
        return SchemaAndValue(
            kept_schema, Struct.of_row(kept_schema, [row[at] for at in positions])
        )

    def _headers(self, schema: Schema | None, value: Any) -> Iterable[Header]:
        if schema is None:
            for name, header in self._pairs:
                yield Header(header, value.get(name))
            return
        row = self._rows.of(value)
        for name, header in self._pairs:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            yield Header(header, row[field.position], field.schema)

    def _without_fields(self, schema: Schema) -> tuple[Schema, list[int]]:
        kept = [field for field in schema.fields if field.name not in self._fields]
        return basics(schema, ((f.name, f.schema) for f in kept)), [f.position for f in kept]


class HeaderFromKey(HeaderFrom):
    """Copies or moves fields of the key into headers."""

    java_names = (JAVA_PACKAGE + "HeaderFrom$Key",)
    on_key = True


class HeaderFromValue(HeaderFrom):
    """Copies or moves fields of the value into headers."""

    java_names = (JAVA_PACKAGE + "HeaderFrom$Value",)
