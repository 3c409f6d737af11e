"""Check the types along the edges: what one part writes to a topic, and another one reads. No IO.

An end is a part, or the `schema` of a topic, which stands between its writers and its readers. An
app says its types in its plan, a connector by its converter, a Spark sink by its `value.*`
settings. Where one side of an edge is not known, there is no problem.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from moldau.config.file_problems import Problem, nearest, warning
from moldau.config.yaml_tree import Node
from moldau.deferred import dataclass
from moldau.pipeline.pipeline import App, Connector, Pipeline, Topic
from moldau.pipeline.references import has_reference
from moldau.pipeline.shapes import (
    AVRO,
    BYTES,
    ENVELOPE,
    JSON,
    JSON_SCHEMA,
    PROTOBUF,
    REGISTERED,
    TEXT,
    Field,
    Shape,
    ddl_fields,
    json_schema_fields,
)

ReadSchema = Callable[[str, str], Shape | str]
"""Returns what a registry at this address has for the values of a topic, or why it is not known."""

_CONVERTER: Final = "value.converter"
_CONVERTERS: Final = {
    "StringConverter": TEXT,
    "ByteArrayConverter": BYTES,
    "AvroConverter": AVRO,
    "JsonSchemaConverter": JSON_SCHEMA,
    "ProtobufConverter": PROTOBUF,
}
_ENABLED: Final = "schemas.enable"
_SPARK: Final = ("SparkSink", "SparkSource")


@dataclass(frozen=True, slots=True)
class End:
    """One end of an edge. A `reader` of Spark reads a missing field as null."""

    where: str
    line: int
    shape: Shape
    is_spark: bool = False
    is_schema: bool = False
    """It is the schema of a topic, and no part."""

    @property
    def reads(self) -> str:
        return f"{self.where} {'has' if self.is_schema else 'reads'}"

    @property
    def writes(self) -> str:
        return f"{self.where} {'has' if self.is_schema else 'writes'}"


def check_edges(
    pipeline: Pipeline,
    root: Node,
    worker: Mapping[str, str],
    read_schema: ReadSchema | None = None,
) -> list[Problem]:
    """Return the problems of all topics. `worker` has the settings of the Connect worker, as far as
    they are known. `read_schema` asks registries; None leaves them out."""
    problems: list[Problem] = []
    for topic in pipeline.topics:
        writers = [end for end in _writers(topic, pipeline, root, worker) if end is not None]
        readers = [end for end in _readers(topic, pipeline, root, worker) if end is not None]
        schema = _schema_ends(topic, root, read_schema, problems)
        pairs = [(writer, reader) for writer in writers for reader in readers]
        if schema is not None:
            pairs = [(writer, schema[0]) for writer in writers]
            pairs += [(schema[1], reader) for reader in readers]
        for writer, reader in pairs:
            problems += _mismatches(topic.name, writer, reader)
    return problems


def _schema_ends(
    topic: Topic, root: Node, read_schema: ReadSchema | None, problems: list[Problem]
) -> tuple[End, End] | None:
    """Return the schema of a topic as its writers and as its readers see it. Add to the problems
    what is wrong with it."""
    text = topic.schema
    where, line = f"topics.{topic.name}.schema", root.line_at(("topics", topic.name, "schema"))
    if text is None:
        return None
    if has_reference(text):
        problems.append(Problem(line, f"{where} cannot be a reference: write the columns"))
        return None
    if not text.startswith(("http://", "https://")):
        if (wrong := _wrong_ddl(text)) is not None:
            problems.append(Problem(line, f"{where}: {wrong}"))
            return None
        fields = ddl_fields(text)
        return (
            _schema_end(where, line, Shape(JSON, fields)),
            _schema_end(
                where, line, Shape(JSON, {name: _written(each) for name, each in fields.items()})
            ),
        )
    found = None if read_schema is None else read_schema(text, topic.name)
    if isinstance(found, str):
        problems.append(warning(line, f"{where}: its types are not checked: {found}"))
        return None
    if found is None:
        return None
    end = _schema_end(where, line, found)
    return end, end


def _schema_end(where: str, line: int, shape: Shape) -> End:
    return End(where, line, shape, is_schema=True)


def _written(column: Field) -> Field:
    """A column of several JSON types, such as a TIMESTAMP, is written as one that is not known."""
    several = column.types is not None and len(column.types) > 1
    return replace(column, types=None) if several else column


def _wrong_ddl(text: str) -> str | None:
    from moldau.errors import ConfigError
    from moldau.spark.columns_ddl import struct_ddl

    try:
        struct_ddl(text, "schema")
    except ConfigError as error:
        return str(error).partition(";")[0]
    return None


# The ends.


def _writers(
    topic: Topic, pipeline: Pipeline, root: Node, worker: Mapping[str, str]
) -> Iterator[End | None]:
    for app in pipeline.apps:
        if topic.name in app.writes:
            yield _app_end(app, topic, root, is_writer=True)
    for source in pipeline.sources:
        if topic.name in source.writes:
            yield _connector_end(source, worker, root)


def _readers(
    topic: Topic, pipeline: Pipeline, root: Node, worker: Mapping[str, str]
) -> Iterator[End | None]:
    names = set(pipeline.readers_of(topic.name))
    for app in pipeline.apps:
        if app.name in names:
            yield _app_end(app, topic, root, is_writer=False)
    for sink in pipeline.sinks:
        if sink.name in names:
            yield _connector_end(sink, worker, root)


def _app_end(app: App, topic: Topic, root: Node, *, is_writer: bool) -> End | None:
    if app.plan is None:
        return None
    types = app.plan.types_written if is_writer else app.plan.types_read
    found = types.get(topic.name)
    if found is None:
        return None
    fields = json_schema_fields(found.get("schema"), is_lax=found.get("is_lax", False))
    line = root.line_at(("topologies", app.name, "app"))
    shape = Shape({"text": TEXT, "bytes": BYTES}.get(found["format"], JSON), fields)
    return End(f"topologies.{app.name}", line, shape)


def _connector_end(each: Connector, worker: Mapping[str, str], root: Node) -> End | None:
    if each.short_class.removesuffix("Connector") in _SPARK:
        return None if each.is_source else _spark_end(each, root)
    own = _CONVERTER in each.config
    given = each.config if own else worker
    name = given.get(_CONVERTER, "")
    short = name.rsplit(".", 1)[-1]
    if short == "JsonConverter":
        enabled = given.get(f"{_CONVERTER}.{_ENABLED}", "true").strip().lower()
        if has_reference(enabled):
            return None
        kind = JSON if enabled == "false" else ENVELOPE
    elif short in _CONVERTERS:
        kind = _CONVERTERS[short]
    else:
        return None
    line = connector_line(root, each, _CONVERTER)
    return End(connector_place(each), line, Shape(kind, _keys(each)))


def _keys(sink: Connector) -> dict[str, Field] | None:
    """Return the fields that a sink of a database takes its primary key from."""
    keys = sink.config.get("pk.fields", "").strip()
    is_plain = sink.config.get("pk.mode", "").strip() == "record_value"
    if sink.is_source or not keys or not is_plain or sink.config.get("transforms", "").strip():
        return None
    return {
        each.strip(): Field(None, "the primary key", is_required=True)
        for each in keys.split(",")
        if not has_reference(each)
    }


def _spark_end(sink: Connector, root: Node) -> End | None:
    config = sink.config
    kind = config.get("value.format", "json").strip()
    line = connector_line(root, sink, "value.schema")
    if config.get("value.registry"):
        registered = {"json": JSON_SCHEMA, "avro": AVRO, "protobuf": PROTOBUF}
        found = registered.get(kind)
        return None if found is None else End(connector_place(sink), line, Shape(found), True)
    if kind != "json" or has_reference(config.get("value.schema", "")):
        return None
    fields = ddl_fields(value_ddl(config), is_lenient=True)
    return End(connector_place(sink), line, Shape(JSON, fields), is_spark=True)


def value_ddl(config: Mapping[str, str]) -> str:
    """Return the columns of a Spark sink's JSON and CSV values as DDL, or an empty text."""
    schema = config.get("value.schema", "").strip()
    is_ddl = config.get("value.format", "json") in ("json", "csv")
    has_none = not is_ddl or config.get("value.registry") or has_reference(schema)
    return "" if has_none or schema.lower() in ("infer", "registry") else schema


# The checks.


def _mismatches(topic: str, writer: End, reader: End) -> Iterator[Problem]:
    wrong = _format_problem(writer.shape, reader.shape)
    if wrong is not None:
        yield Problem(reader.line, f"{_formats(topic, writer, reader)}{wrong}")
        return
    written, wanted = writer.shape.fields, reader.shape.fields
    if not written or not wanted:
        return
    for name, field in wanted.items():
        if name in written:
            yield from _type_problem(topic, name, (writer, written[name]), (reader, field))
        elif field.is_required or reader.is_spark or reader.is_schema:
            has = f"{nearest(name, written)} (it has {', '.join(sorted(written))})"
            text = f"{reader.reads} {name} of {topic}, which {writer.where} lacks"
            report = Problem if field.is_required else warning
            yield report(reader.line, f"{text}{has}")


def _formats(topic: str, writer: End, reader: End) -> str:
    return (
        f"{reader.reads} {topic} as {reader.shape.format}, and {writer.writes} "
        f"{writer.shape.format}"
    )


def _format_problem(writer: Shape, reader: Shape) -> str | None:
    """Return what to do about formats that do not fit, or None if they may."""
    written, read = writer.format, reader.format
    if written == read or BYTES in (written, read):
        return None
    if written in REGISTERED or read in REGISTERED:
        return ": use the same converter"
    if written == JSON and read == ENVELOPE:
        return f": set {_CONVERTER}.{_ENABLED}: false"
    if written == ENVELOPE and read == JSON and reader.fields and "payload" not in reader.fields:
        return f": set {_CONVERTER}.{_ENABLED}: false there"
    return None  # a text may be JSON


def _type_problem(
    topic: str, name: str, written: tuple[End, Field], wanted: tuple[End, Field]
) -> Iterator[Problem]:
    (writer, before), (reader, after) = written, wanted
    if before.types is None or after.types is None:
        return
    text = f"{reader.reads} {name} of {topic} as {after.text}, and {writer.writes} {before.text}"
    real = before.types - {"null"}
    if not after.takes(before.types):
        fits_some = any(after.takes(frozenset({each})) for each in real)
        yield (warning if fits_some else Problem)(reader.line, text)
    elif "null" in before.types and not after.can_be_null:
        yield warning(reader.line, text)


def connector_place(connector: Connector) -> str:
    """Return where a connector is in the file, such as `sinks.lake`."""
    return f"{'sources' if connector.is_source else 'sinks'}.{connector.name}"


def connector_line(root: Node, connector: Connector, key: str) -> int:
    """Return the line of a key of a connector, or that of the connector without it."""
    section = root.entries()["sources" if connector.is_source else "sinks"]
    entries = section.entries()[connector.name].entries()
    inner = entries.get("config")
    entries = inner.entries() if inner is not None and inner.entries() else entries
    return entries[key].line if key in entries else connector.line
