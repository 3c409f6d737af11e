"""The JsonConverter: JSON with or without Kafka's envelope of schema and payload.

Every record repeats its schema, so it is not parsed again: the bytes before the payload are kept
with their schema, and of a record that begins with the same bytes only the payload is parsed.

Connect and its connectors use orjson and not msgspec, which writes dates, bytes and decimals in
forms of its own without asking, and 1e+30 as 1e30, and reads integers of more than 64 bits exactly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import orjson

from moldau.connect.api.conversion import Converter, ConverterConfig, HeaderConverter
from moldau.connect.config.model import Problem, key
from moldau.connect.converters.json_column_reader import ColumnReader, columns_of_dicts, is_readable
from moldau.connect.converters.json_columns import ColumnWriter, is_writable
from moldau.connect.converters.json_schemas import schema_from_json, schema_to_json
from moldau.connect.converters.json_values import (
    Convert,
    JsonTraits,
    Readers,
    Writers,
    has_decimal,
    schemaless,
    with_special_numbers,
)
from moldau.connect.data.headers import Headers
from moldau.connect.data.schema import Schema, SchemaAndValue
from moldau.connect.errors import DataError

if TYPE_CHECKING:
    from moldau.client.base.columns import BinaryColumn
    from moldau.connect.api.columns import StructColumns

_SCHEMAS, _SERIALIZATION = "Schemas", "Serialization"
_NO_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
    "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false "
    "in your converter configuration."
)
_PASS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_HEAD, _MIDDLE = b'{"schema":', b',"payload":'


class JsonConfig(ConverterConfig):
    """Settings of the JsonConverter."""

    schemas_enable: bool = key(
        "schemas.enable", True,
        doc="Write the schema into every record, and expect it there.",
        importance="high", group=_SCHEMAS, order=0, width="medium", display="Enable Schemas",
    )  # fmt: skip
    schemas_cache_size: int = key(
        "schemas.cache.size", 1000,
        doc="How many schemas are remembered.",
        importance="high", group=_SCHEMAS, order=1, width="medium", display="Schema Cache Size",
    )  # fmt: skip
    schema_content: str | None = key(
        "schema.content", None,
        doc="The schema of all records, as JSON; the records then hold the payload alone.",
        importance="high", group=_SCHEMAS, order=2, width="medium", display="Schema Content",
    )  # fmt: skip
    decimal_format: Literal["BASE64", "NUMERIC"] = key(
        "decimal.format", "BASE64",
        doc="Write decimals as base64 of their bytes, or as numbers.",
        importance="low", group=_SERIALIZATION, order=0, width="medium", display="Decimal Format",
    )  # fmt: skip
    replace_null_with_default: bool = key(
        "replace.null.with.default", True,
        doc="Write and read the default of the schema where a value is null.",
        importance="low", group=_SERIALIZATION, order=1, width="medium",
        display="Replace null with default",
    )  # fmt: skip

    def check(self) -> Iterable[Problem]:
        if self.schema_content:
            try:
                schema_from_json(parsed(self.schema_content.encode()), Readers(JsonTraits()))
            except DataError as error:
                yield Problem("schema.content", f"schema.content is no schema: {error}")


class JsonConverter(Converter, HeaderConverter):
    """Converts keys, values and headers to and from JSON, with or without the schema."""

    java_names = ("org.apache.kafka.connect.json.JsonConverter",)
    config_model = JsonConfig

    def configure(self, props: Mapping[str, str], is_key: bool = False) -> None:
        Converter.configure(self, props, is_key)
        config = JsonConfig.of(props)
        traits = JsonTraits(config.decimal_format == "NUMERIC", config.replace_null_with_default)
        self._readers, self._writers = Readers(traits), Writers(traits)
        self._with_envelope = config.schemas_enable
        self._cache_size = max(config.schemas_cache_size, 1)
        self._written: dict[int, tuple[Schema | None, bytes, Convert]] = {}
        self._columns: dict[int, tuple[Schema, ColumnWriter]] = {}
        self._known: dict[bytes, tuple[Schema | None, Convert]] = {}
        self._column_readers: dict[bytes, ColumnReader] = {}
        self._schema: Schema | None = None
        if config.schema_content:
            described = parsed(config.schema_content.encode())
            self._schema = schema_from_json(described, self._readers)

    # --- to bytes ---------------------------------------------------------------------------

    def from_connect_data(
        self, topic: str, headers: Headers | None, schema: Schema | None, value: Any
    ) -> bytes | None:
        if schema is None and value is None:
            return None
        known = self._written.get(id(schema))
        if known is None:
            known = self._remember(schema)
        _, head, write = known
        payload = _without_schema(value) if schema is None else _dumped(write(value))
        return head + payload + b"}" if self._with_envelope else payload

    def from_connect_columns(
        self, topic: str, schema: Schema, columns: Sequence[Sequence[Any]]
    ) -> Sequence[bytes | None]:
        if is_writable(schema):
            known = self._columns.get(id(schema))
            if known is None:
                known = self._remember_columns(schema)
            written = known[1].write(columns)
            if written is not None:
                return written
        return super().from_connect_columns(topic, schema, columns)

    def _remember_columns(self, schema: Schema) -> tuple[Schema, ColumnWriter]:
        if len(self._columns) >= self._cache_size:
            self._columns.clear()
        _, head, _ = self._written.get(id(schema)) or self._remember(schema)
        around = (head, b"}") if self._with_envelope else (b"", b"")
        known = self._columns[id(schema)] = (schema, ColumnWriter(schema, self._writers, *around))
        return known

    def _remember(self, schema: Schema | None) -> tuple[Schema | None, bytes, Convert]:
        """Return head and writer of a schema. They are kept by the identity of the schema, because
        comparing schemas costs more than writing a record."""
        if len(self._written) >= self._cache_size:
            self._written.clear()
            self._writers.clear()
        write = schemaless if schema is None else self._writers.of(schema)
        described = None if schema is None else schema_to_json(schema, self._writers)
        known = self._written[id(schema)] = (schema, _HEAD + _dumped(described) + _MIDDLE, write)
        return known

    # --- from bytes -------------------------------------------------------------------------

    def to_connect_data(
        self, topic: str, headers: Headers | None, data: bytes | None
    ) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        if not self._with_envelope:
            return SchemaAndValue(None, parsed(data) if data else None)
        if self._schema is not None:
            return SchemaAndValue(self._schema, self._reader(self._schema)(data))
        if data[-1:] == b"}":
            for head, (schema, read) in self._known.items():
                if data.startswith(head):
                    try:
                        return SchemaAndValue(schema, read(data[len(head) : -1]))
                    except DataError:
                        break  # more fields follow the payload, or it does not fit: see below
        return self._from_envelope(data)

    def to_connect_values(self, topic: str, data: Sequence[bytes | None]) -> list[Any]:
        if self._with_envelope:
            return super().to_connect_values(topic, data)
        return [parsed(each) if each else None for each in data]

    @property
    def reads_columns(self) -> bool:
        return True

    def to_connect_columns(self, topic: str, data: BinaryColumn) -> StructColumns | None:
        ends = data.ends.tolist()
        if data.validity is not None or len(ends) != len(data) + 1:
            return None
        text = bytes(data.data)
        if not self._with_envelope:
            return columns_of_dicts(text, ends, parsed)
        head = b""
        if self._schema is None:
            first = text[ends[0] : ends[1]]
            self.to_connect_data(topic, None, first)  # so that its head is known
            found = next((known for known in self._known if first.startswith(known)), None)
            if found is None:
                return None
            head = found
        reader = self._column_reader(head)
        return None if reader is None else reader.read(text, ends)

    def _column_reader(self, head: bytes) -> ColumnReader | None:
        reader = self._column_readers.get(head)
        if reader is None:
            schema = self._known[head][0] if head else self._schema
            if schema is None or not is_readable(schema):
                return None
            if len(self._column_readers) >= _HEADS_MAX:
                self._column_readers.clear()
            reader = self._column_readers[head] = ColumnReader(schema, self._readers, head)
        return reader

    def _from_envelope(self, data: bytes) -> SchemaAndValue:
        envelope = parsed(data)
        if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
            raise DataError(_NO_ENVELOPE)
        schema = schema_from_json(envelope["schema"], self._readers)
        head = _head_of(data)
        if head is not None:
            if len(self._known) >= min(self._cache_size, _HEADS_MAX):
                self._known.clear()
                self._readers.clear()
            self._known[head] = (schema, self._reader(schema))
        if schema is None:
            return SchemaAndValue(None, envelope["payload"])
        exact = exactly(data) if has_decimal(schema) else envelope
        return SchemaAndValue(schema, self._readers.of(schema)(exact["payload"]))

    def _reader(self, schema: Schema | None) -> Convert:
        """Return a function from the bytes of a payload to its value."""
        if schema is None:
            return parsed
        read, parse = self._readers.of(schema), exactly if has_decimal(schema) else parsed
        return lambda payload: read(parse(payload))

    # --- headers ----------------------------------------------------------------------------

    def from_connect_header(
        self, topic: str, key: str, schema: Schema | None, value: Any
    ) -> bytes | None:
        return self.from_connect_data(topic, None, schema, value)

    def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
        return self.to_connect_data(topic, None, data)

    def close(self) -> None:
        return


_HEADS_MAX = 16
"""Heads are tried one after the other; one topic rarely has more different ones than this."""


def parsed(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DataError(f"this is no JSON: {error}", size=len(data)) from None


def exactly(data: bytes) -> Any:
    """Parse JSON like `parsed`, and keep the exact digits of numbers, for decimals."""
    try:
        return json.loads(data, parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"this is no JSON: {error}", size=len(data)) from None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


def _head_of(data: bytes) -> bytes | None:
    """Return the bytes up to the payload; None unless the envelope has Kafka's exact form."""
    if not data.startswith(_HEAD):
        return None
    text = data.decode("utf-8")
    try:
        _, end = json.JSONDecoder().raw_decode(text, len(_HEAD))
    except ValueError:  # a space before the schema, as Python writes it
        return None
    head = text[:end].encode("utf-8") + _MIDDLE
    return head if data.startswith(head) else None


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise DataError(f"a value cannot be written to JSON: {error}") from None


def _without_schema(value: Any) -> bytes:
    try:
        written = orjson.dumps(value, schemaless, _PASS)
        if b"null" not in written:
            return written
        # Perhaps a NaN, which orjson writes as null.
        return orjson.dumps(with_special_numbers(value), schemaless, _PASS)
    except orjson.JSONEncodeError as error:
        if isinstance(error.__cause__, DataError):
            raise error.__cause__ from None
    try:
        return orjson.dumps(with_special_numbers(value), schemaless, _PASS)
    except orjson.JSONEncodeError as error:
        raise DataError(f"a value cannot be written to JSON: {error}") from None
