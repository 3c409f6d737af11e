"""Write rows as Avro values: derive the Avro schema of Spark's columns, and encode each row.

Invariants: equal columns always give the same schema, so a registry that has the schema makes no
new version of it. A row that does not fit its schema is an error that names the column. It is
never written as another value.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.plugins.extras import need
from moldau.values.avro.fit import Values
from moldau.values.avro.plain import Misfit
from moldau.values.avro.schemas import avro_schema, parse_alone
from moldau.values.failures import SerializationFailed
from moldau.values.wire import frame

if TYPE_CHECKING:
    import pyarrow as pa

VALUE: Final = "value"
_PLAIN: Final[Mapping[str, Any]] = {
    "boolean": "boolean",
    "byte": "int",
    "short": "int",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_TEXT: Final = re.compile(r"(?:string|char|varchar)\b.*")
_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_NO_NAME: Final = re.compile("[^A-Za-z0-9_]")


def schema_of(columns: Mapping[str, Any], name: str) -> str:
    """Return the Avro schema of rows with these columns, as JSON.

    `columns` is what `StructType.jsonValue()` returns. `name` may be any text, such as a topic's
    name. Raises ConfigError for a column whose name or type Avro does not have."""
    return json.dumps(_record(columns, re.sub(r"\A(?=\d)", "_", _NO_NAME.sub("_", name)), ""))


def _record(columns: Mapping[str, Any], name: str, path: str) -> dict[str, Any]:
    fields = []
    for each in columns["fields"]:
        column, at = each["name"], f"{path}{each['name']}"
        if not _NAME.fullmatch(column):
            raise ConfigError(
                "Avro does not allow this column name: rename it in transforms.sql", column=at
            )
        kind = _type(each["type"], f"{name}_{column}", at)
        if each["nullable"]:
            fields.append({"name": column, "type": ["null", kind], "default": None})
        else:
            fields.append({"name": column, "type": kind})
    return {"type": "record", "name": name, "fields": fields}


def _type(kind: Any, name: str, at: str) -> Any:
    """Translate one Spark type. `name` is for nested records; `at` is the column in errors."""
    if isinstance(kind, str):
        return _simple(kind, at)
    if kind["type"] == "struct":
        return _record(kind, name, f"{at}.")
    if kind["type"] == "array":
        items = _type(kind["elementType"], name, f"{at}[]")
        return {"type": "array", "items": ["null", items] if kind["containsNull"] else items}
    if kind["type"] == "map" and _TEXT.fullmatch(str(kind["keyType"])):
        values = _type(kind["valueType"], name, f"{at}[]")
        return {"type": "map", "values": ["null", values] if kind["valueContainsNull"] else values}
    raise _no_type(kind["type"], at)


def _simple(kind: str, at: str) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if _TEXT.fullmatch(kind):
        return "string"
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is None:
        raise _no_type(kind, at)
    precision, scale = map(int, decimal.groups())
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _no_type(kind: str, at: str) -> ConfigError:
    return ConfigError(
        "Avro has no type for this column: cast the column in transforms.sql", column=at, type=kind
    )


def check_record(text: str) -> dict[str, bool]:
    """Return the fields of a record schema, and for each whether it has a default.

    A field with a default may be missing in a row. Raises ConfigError if the schema is not that of
    a record."""
    parsed = parse_alone(avro_schema(text), {})
    if not isinstance(parsed, dict) or parsed["type"] != "record":
        raise ConfigError("rows need the Avro schema of a record", schema=text[:80])
    return {each["name"]: "default" in each for each in parsed["fields"]}


@dataclass(frozen=True)
class ValueWriter:
    """Encode the struct column `value` as Avro bytes, and leave the other columns as they are.

    It is an argument of `DataFrame.mapInArrow`. With a `schema_id`, values begin with the five
    bytes of a Schema Registry."""

    schema: str
    schema_id: int | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        write = value_writer(self.schema, self.schema_id)
        for batch in batches:
            at = batch.schema.get_field_index(VALUE)
            rows = batch.column(at).to_pylist(maps_as_pydicts="strict")
            columns = batch.columns
            columns[at] = pa.array([write(row) for row in rows], pa.binary())
            yield pa.RecordBatch.from_arrays(columns, batch.schema.names)


def value_writer(text: str, schema_id: int | None) -> Callable[[Mapping[str, Any]], bytes]:
    """Return a function that encodes one row.

    The function raises SerializationFailed, which names the column, if the row does not fit."""
    named: dict[str, Any] = {}
    parsed = parse_alone(avro_schema(text), named)
    fit, prefix = Values(named).fit(parsed), b"" if schema_id is None else frame(schema_id)
    write_to = need("fastavro", "avro").schemaless_writer

    def write(row: Mapping[str, Any]) -> bytes:
        try:
            fitted = fit(row)
        except Misfit as misfit:
            raise SerializationFailed(
                f"a row does not fit value.schema: {misfit}", column=misfit.at
            ) from None
        buffer = io.BytesIO()
        buffer.write(prefix)
        write_to(buffer, parsed, fitted)
        return buffer.getvalue()

    return write
