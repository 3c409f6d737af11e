"""TimestampConverter: converts between texts, Unix time, Date, Time and Timestamp."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time
from typing import Any, Literal

from moldau.connect.api.record import ConnectRecord
from moldau.connect.config.model import Problem, key
from moldau.connect.data import logical
from moldau.connect.data.schema import (
    DATE,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Logical,
    Schema,
    SchemaAndValue,
    Type,
)
from moldau.connect.data.struct import Struct
from moldau.connect.errors import ConnectError, DataError
from moldau.connect.java.dates import DatePatternError, SimpleDateFormat
from moldau.connect.transforms.paths import (
    WithPaths,
    map_with,
    parse_path,
    schema_with,
    struct_with,
)
from moldau.connect.transforms.sided import (
    JAVA_PACKAGE,
    BySchema,
    KeyOrValueTransform,
    NullReplacement,
    StructReader,
    require_map,
    require_struct,
)

_PURPOSE = "converting timestamp formats"
_SCHEMAS: Mapping[str, Schema] = {
    "string": STRING,
    "unix": INT64,
    "Date": DATE,
    "Time": TIME,
    "Timestamp": TIMESTAMP,
}
_TEMPORAL = (Logical.DATE, Logical.TIME, Logical.TIMESTAMP)
_PER_SECOND = {
    "seconds": 1,
    "milliseconds": 1000,
    "microseconds": 1_000_000,
    "nanoseconds": 1_000_000_000,
}


class TimestampConverterConfig(NullReplacement, WithPaths):
    """Settings of TimestampConverter."""

    field: str = key("field", "", doc="The field; empty for the whole.", importance="high")
    target_type: Literal["string", "unix", "Date", "Time", "Timestamp"] = key(
        "target.type", doc="What it becomes.", importance="high"
    )
    format: str = key(
        "format", "", doc="The pattern of texts, as for Java's SimpleDateFormat; in UTC."
    )
    unix_precision: Literal["nanoseconds", "microseconds", "milliseconds", "seconds"] = key(
        "unix.precision", "milliseconds", doc="The unit of Unix time.", importance="low"
    )

    def check(self) -> Iterable[Problem]:
        if self.target_type == "string" and not self.format.strip():
            yield Problem(
                "format",
                "TimestampConverter requires format option to be specified when using string "
                "timestamps",
            )
        try:
            SimpleDateFormat(self.format)
        except DatePatternError as error:
            yield Problem("format", str(error))
        try:
            parse_path(self.field, self.field_syntax_version)
        except ValueError as error:
            yield Problem("field", str(error))


class TimestampConverter(KeyOrValueTransform):
    """Converts a field, or the whole key or value, from and to texts, Unix time, Date, Time and
    Timestamp. The type of the input is detected."""

    config_model = TimestampConverterConfig

    def configure(self, props: Mapping[str, str]) -> None:
        config = TimestampConverterConfig.of(props)
        self._path = parse_path(config.field, config.field_syntax_version) if config.field else ()
        self._target = config.target_type
        self._format = SimpleDateFormat(config.format) if config.format.strip() else None
        self._per_second = _PER_SECOND[config.unix_precision]
        self._rows = StructReader(config.replace_null_with_default)
        self._schemas = BySchema(self._plan)

    def change(
        self, record: ConnectRecord, schema: Schema | None, value: Any
    ) -> SchemaAndValue | None:
        if not self._path:
            target = None if schema is None else _SCHEMAS[self._target].optionally(schema.optional)
            return SchemaAndValue(target, self._converted(schema, value))
        if schema is None:
            if value is None:
                return SchemaAndValue(None, None)
            fields = map_with(require_map(value, _PURPOSE), self._path, self._converted)
            return SchemaAndValue(None, fields)
        target = self._schemas(schema)
        if value is None:
            return SchemaAndValue(target, None)
        return SchemaAndValue(target, self._in_struct(require_struct(value, _PURPOSE), target))

    def _in_struct(self, struct: Struct, target: Schema) -> Struct:
        complete = Struct.of_row(struct.schema, self._rows.of(struct))
        return struct_with(complete, target, self._path, self._stored)

    def _stored(self, schema: Schema | None, value: Any) -> Any:
        return self._converted(schema, value)

    def _plan(self, schema: Schema) -> Schema:
        target = schema_with(
            schema.replace(default=None),
            self._path,
            lambda part: _SCHEMAS[self._target].optionally(part.optional),
        )
        if isinstance(schema.default, Struct):
            return target.replace(default=self._in_struct(schema.default, target))
        return target

    def _converted(self, schema: Schema | None, value: Any) -> Any:
        _check_is_timestamp(schema)
        return None if value is None else self._written(self._instant(value))

    def _instant(self, value: Any) -> datetime:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        if isinstance(value, date):
            return datetime.combine(value, time(), UTC)
        if isinstance(value, time):
            return datetime.combine(logical.EPOCH.date(), value.replace(tzinfo=None), UTC)
        if isinstance(value, int) and not isinstance(value, bool):
            return logical.timestamp_from_ms(_cut(value * 1000, self._per_second))
        if isinstance(value, str):
            if self._format is None:
                raise DataError("a text is no timestamp without `format`: set the pattern")
            return self._format.parse(value)
        raise DataError(
            f"TimestampConverter does not support {type(value).__name__} objects as timestamps"
        )

    def _written(self, when: datetime) -> Any:
        match self._target:
            case "string":
                assert self._format is not None
                return self._format.format(when)
            case "unix":
                return _cut(logical.timestamp_to_ms(when) * self._per_second, 1000)
            case "Date":
                return when.date()
            case "Time":
                return when.time()
        return when


def _check_is_timestamp(schema: Schema | None) -> None:
    if schema is None or schema.logical in _TEMPORAL:
        return
    if schema.type not in (Type.STRING, Type.INT64):
        raise ConnectError(
            f"{schema.described()} does not correspond to a known timestamp type format"
        )


def _cut(number: int, divisor: int) -> int:
    """Divide and round towards zero, as Java does."""
    return number // divisor if number >= 0 else -(-number // divisor)


class TimestampConverterKey(TimestampConverter):
    """Converts the key or a field of it."""

    java_names = (JAVA_PACKAGE + "TimestampConverter$Key",)
    on_key = True


class TimestampConverterValue(TimestampConverter):
    """Converts the value or a field of it."""

    java_names = (JAVA_PACKAGE + "TimestampConverter$Value",)
