"""Debezium's change events: a row before and after, the operation, and its source.

`ExtractNewRecordState` has Debezium's class name, so that configs with `unwrap` work without
changes. Sinks that take change events directly use `change_of` and `is_envelope`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from moldau.connect.api.record import ConnectRecord
from moldau.connect.api.transformation import R, Transformation
from moldau.connect.config.model import ConfigModel, Problem, key
from moldau.connect.data import OPTIONAL_STRING
from moldau.connect.data.headers import Headers
from moldau.connect.data.schema import Schema, Type
from moldau.connect.data.struct import Struct
from moldau.connect.errors import DataError

_log = logging.getLogger(__name__)
_DELETED = "deleted"
_SCHEMAS_MAX = 64


class Operation(StrEnum):
    """The operation on a row: the values of `op`."""

    CREATE = "c"
    READ = "r"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    MESSAGE = "m"


class ChangeEvent(NamedTuple):
    """The parts of a change event."""

    operation: Operation
    before: Any
    after: Any
    schema: Schema | None
    """The schema of the row; None for data without schemas."""


def is_envelope(schema: Schema | None, value: Any) -> bool:
    """Whether a value is a change event of Debezium."""
    if schema is None:
        return isinstance(value, dict) and "op" in value and "before" in value and "after" in value
    if schema.type is not Type.STRUCT or not (schema.name or "").endswith("Envelope"):
        return False
    return "op" in schema.positions and "after" in schema.positions


def change_of(schema: Schema | None, value: Any) -> ChangeEvent:
    """Return the parts of a change event. Raise DataError for an unknown operation."""
    op = value.get("op")
    try:
        operation = Operation(op)
    except ValueError:
        raise DataError(f"a change event has the operation {op!r}") from None
    after = schema.field("after") if schema is not None else None
    row = after.schema if after is not None else None
    return ChangeEvent(operation, value.get("before"), value.get("after"), row)


class DeleteHandling(StrEnum):
    """How to handle deletes and the tombstones after them."""

    DROP = "drop"
    TOMBSTONE = "tombstone"
    REWRITE = "rewrite"
    REWRITE_WITH_TOMBSTONE = "rewrite-with-tombstone"
    DELETE_TO_TOMBSTONE = "delete-to-tombstone"

    @property
    def keeps_tombstones(self) -> bool:
        return self in (DeleteHandling.TOMBSTONE, DeleteHandling.REWRITE_WITH_TOMBSTONE)

    @property
    def rewrites(self) -> bool:
        return self in (DeleteHandling.REWRITE, DeleteHandling.REWRITE_WITH_TOMBSTONE)


class OldDeleteHandling(StrEnum):
    """How to handle deletes, in the settings of Debezium before 2.5."""

    DROP = "drop"
    REWRITE = "rewrite"
    NONE = "none"


class ExtractNewRecordStateConfig(ConfigModel):
    """Settings of ExtractNewRecordState."""

    handling: DeleteHandling = key(
        "delete.tombstone.handling.mode", DeleteHandling.TOMBSTONE,
        doc="What becomes of deletes and of the tombstones behind them.", importance="medium",
    )  # fmt: skip
    drop_tombstones: bool | None = key(
        "drop.tombstones", None,
        doc="Before Debezium 2.5: drop tombstones.", importance="low",
    )  # fmt: skip
    old_handling: OldDeleteHandling | None = key(
        "delete.handling.mode", None,
        doc="Before Debezium 2.5: what becomes of deletes; none makes them tombstones.",
        importance="low",
    )  # fmt: skip
    fields_added: list[str] = key(
        "add.fields", [],
        doc="Parts of the event to add to the row, as op or source.ts_ms, or op:NAME.",
    )  # fmt: skip
    fields_prefix: str = key("add.fields.prefix", "__", doc="Put before their names.")
    headers_added: list[str] = key(
        "add.headers", [],
        doc="The same, as headers of the record.",
    )  # fmt: skip
    headers_prefix: str = key("add.headers.prefix", "__", doc="Put before their names.")
    route_field: str = key(
        "route.by.field", "",
        doc="The field of the row that holds the topic to send to.",
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        for name, given in (("add.fields", self.fields_added), ("add.headers", self.headers_added)):
            for text in given:
                if not all(text.split(":")) or text.count(":") > 1:
                    yield Problem(name, f"{text!r} is no part of an event, such as source.ts_ms")


class _Added(NamedTuple):
    """A part of the event to add, and its name in the result."""

    path: tuple[str, ...]
    name: str

    @classmethod
    def of(cls, text: str, prefix: str) -> _Added:
        path, _, name = text.partition(":")
        return cls(tuple(path.split(".")), prefix + (name or path.replace(".", "_")))

    def field(self, schema: Schema) -> Schema | None:
        """Return the schema of the part. A part that is not at the top level may be in `source`."""
        for path in (self.path, ("source", *self.path)):
            found: Schema | None = schema
            for step in path:
                field = found.field(step) if found is not None else None
                found = field.schema if field is not None else None
            if found is not None:
                return found
        return None

    def value(self, event: Any) -> Any:
        for path in (self.path, ("source", *self.path)):
            found = event
            for step in path:
                found = found.get(step) if isinstance(found, Struct | dict) else None
            if found is not None:
                return found
        return None


class ExtractNewRecordState(Transformation):
    """Replaces a change event of Debezium by its row. Other records are not changed."""

    java_names = ("io.debezium.transforms.ExtractNewRecordState",)
    config_model = ExtractNewRecordStateConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = self._config = ExtractNewRecordStateConfig.of(props)
        self._drops_tombstones = not config.handling.keeps_tombstones
        self._rewrites = config.handling.rewrites
        self._makes_tombstones = config.handling is DeleteHandling.DELETE_TO_TOMBSTONE
        if config.old_handling is not None or config.drop_tombstones is not None:
            self._drops_tombstones = config.drop_tombstones is not False
            self._rewrites = config.old_handling is OldDeleteHandling.REWRITE
            self._makes_tombstones = config.old_handling is OldDeleteHandling.NONE
        self._fields = [_Added.of(each, config.fields_prefix) for each in config.fields_added]
        self._headers = [_Added.of(each, config.headers_prefix) for each in config.headers_added]
        self._schemas: dict[int, tuple[Schema, Schema, Schema]] = {}
        self._has_warned = False

    def apply(self, record: R) -> R | None:
        value, schema = record.value, record.value_schema
        if value is None:
            return None if self._drops_tombstones else record
        if not is_envelope(schema, value):
            if not self._has_warned:
                self._has_warned = True
                _log.warning("topic %s: a record is no change event, it stays as it is",
                             record.topic)  # fmt: skip
            return record
        change = change_of(schema, value)
        if change.operation in (Operation.TRUNCATE, Operation.MESSAGE):
            return None
        if change.operation is not Operation.DELETE:
            return self._routed(self._row(record, change, change.after, "false"), change.after)
        if self._rewrites:
            return self._routed(self._row(record, change, change.before, "true"), change.before)
        if self._makes_tombstones:
            made = record.replace(value_schema=None, value=None, headers=self._all_headers(record))
            return self._routed(made, change.before)
        return None

    def _row(self, record: R, change: ChangeEvent, row: Any, deleted: str) -> R:
        added = {each.name: each.value(record.value) for each in self._fields}
        if self._rewrites:
            added[self._config.fields_prefix + _DELETED] = deleted
        headers = self._all_headers(record)
        if not isinstance(row, Struct):
            found = {**(row or {}), **added}
            return record.replace(value_schema=None, value=found, headers=headers)
        assert record.value_schema is not None
        schema = self._schema(record.value_schema, row.schema) if added else row.schema
        value = Struct.of_row(schema, [*row.row, *added.values()])
        return record.replace(value_schema=schema, value=value, headers=headers)

    def _schema(self, event: Schema, row: Schema) -> Schema:
        """Return the schema of rows with the added fields."""
        known = self._schemas.get(id(event))
        if known is not None and known[1] is row:
            return known[2]
        fields = {field.name: field.schema for field in row.fields}
        for each in self._fields:
            fields[each.name] = (each.field(event) or OPTIONAL_STRING).optionally()
        if self._rewrites:
            fields[self._config.fields_prefix + _DELETED] = OPTIONAL_STRING
        made = Schema.struct(
            fields, name=row.name, version=row.version, doc=row.doc, optional=row.optional
        )
        if len(self._schemas) >= _SCHEMAS_MAX:
            self._schemas.clear()
        self._schemas[id(event)] = (event, row, made)
        return made

    def _all_headers(self, record: ConnectRecord) -> Headers:
        if not self._headers:
            return record.headers
        headers = record.headers.copy()
        for each in self._headers:
            schema = each.field(record.value_schema) if record.value_schema is not None else None
            headers.add(each.name, each.value(record.value), schema)
        return headers

    def _routed(self, record: R, row: Any) -> R:
        name = self._config.route_field
        if not name:
            return record
        topic = row.get(name) if row is not None else None
        if not isinstance(topic, str) or not topic:
            raise DataError(f"route.by.field: the row has no text in {name}")
        return record.replace(topic=topic)
