"""The types along the edges of a pipeline: what is written is checked against what is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moldau.cli import main
from moldau.client.serdes import Schema
from moldau.client.sync import SchemaRegistry
from moldau.pipeline.pipeline import AppPlan
from moldau.pipeline.shapes import (
    AVRO,
    Shape,
    avro_fields,
    ddl_fields,
    json_schema_fields,
    registered_shape,
    schema_shape,
)
from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker
from tests.pipeline.files import app_plan, read
from tests.registry.served import USER_2, process

TWO_APPS = """\
pipeline: sales
topics:
  orders: {external: true}
  sales: {partitions: 2}
  totals: {partitions: 2}
topologies:
  join:
    app: one:app
  total:
    app: two:app
"""
SPARK_SINK = """\
sinks:
  lake:
    connector.class: SparkSinkConnector
    topics: totals
    value.schema: id BIGINT, name STRING, amount BIGINT, at TIMESTAMP
    sink.format: noop
    checkpoint.location: checkpoints
"""
FILE_SINK = """\
sinks:
  lake:
    connector.class: FileStreamSink
    topics: totals
    file: out.txt
    value.converter: %s
"""


def schema(**types: Any) -> dict[str, Any]:
    """A record with fields of these types; a list is a union, and a field is required."""
    fields = {
        name: {"anyOf": [{"type": one} for one in each]} if isinstance(each, list) else
        {"type": each} for name, each in types.items()
    }  # fmt: skip
    return {
        "format": "json",
        "schema": {
            "$ref": "#/$defs/Sale",
            "$defs": {"Sale": {"properties": fields, "required": list(types)}},
        },
    }


def problems(
    text: str,
    written: Mapping[str, Any] | None,
    wanted: Mapping[str, Any] | None = None,
    asked: Shape | str | None = None,
) -> list[str]:
    one, two = app_plan("one", ["orders"], ["sales"]), app_plan("two", ["sales"], ["totals"])
    types = {} if written is None else {"sales": written, "totals": written}
    plans: dict[str, AppPlan | str] = {
        "one:app": replace(one, types_written=types),
        "two:app": replace(
            two, types_written=types, types_read={} if wanted is None else {"sales": wanted}
        ),
    }

    def read_schema(url: str, topic: str) -> Shape | str:
        assert (url, topic) == ("http://registry:8081", "sales")
        return "it does not answer" if asked is None else asked

    found = read(text, plans=plans, read_schema=read_schema)
    return [found.files.format(each).removeprefix("p.yaml:") for each in found.problems]


SALE = schema(id="integer", name="string", amount="number", note=["string", "null"])


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (SALE, []),
        (None, []),
        ({"format": "text"}, []),
        ({"format": "bytes"}, []),
        ({"format": "json"}, []),
        (schema(id="number", amount=["number", "null"]), []),
        (
            schema(id="string"),
            ["10: error: topologies.total reads id of sales as string, and topologies.join "
             "writes integer"],
        ),
        (
            schema(amount="integer"),
            ["10: error: topologies.total reads amount of sales as integer, and topologies.join "
             "writes number"],
        ),
        (
            schema(nam="string"),
            ["10: error: topologies.total reads nam of sales, which topologies.join lacks; "
             "did you mean name? (it has amount, id, name, note)"],
        ),
        (
            schema(note="string"),
            ["10: warning: topologies.total reads note of sales as string, and topologies.join "
             "writes string or null"],
        ),
    ],
)  # fmt: skip
def test_an_app_is_checked_against_the_app_before_it(
    wanted: Mapping[str, Any] | None, expected: list[str]
) -> None:
    assert problems(TWO_APPS, SALE, wanted) == expected


def test_a_field_with_a_default_may_be_missing() -> None:
    wanted = schema(id="integer", more="string")
    wanted["schema"]["$defs"]["Sale"]["required"] = ["id"]
    assert problems(TWO_APPS, SALE, wanted) == []


def test_a_side_that_is_not_known_is_no_problem() -> None:
    assert problems(TWO_APPS, None, SALE) == []
    assert problems(TWO_APPS + SPARK_SINK, None) == []
    assert problems(TWO_APPS + SPARK_SINK, {"format": "text"}) == []
    (reference,) = problems(TWO_APPS + SPARK_SINK.replace("id BIGINT", "id ${env:TYPE}"), SALE)
    assert "the environment variable is not set" in reference


def test_a_spark_sink_is_checked_by_its_columns() -> None:
    written = schema(id="string", name="integer", amount="integer", at="string")
    assert problems(TWO_APPS + SPARK_SINK, written) == [
        "15: error: sinks.lake reads id of totals as BIGINT, and topologies.total writes string"
    ]
    short = schema(id="integer", name="string", amount="integer")
    assert problems(TWO_APPS + SPARK_SINK, short) == [
        "15: warning: sinks.lake reads at of totals, which topologies.total lacks (it has "
        "amount, id, name)"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("converter", "written", "expected"),
    [
        ("StringConverter", SALE, None),
        ("ByteArrayConverter", SALE, None),
        ("my.own.Converter", SALE, None),
        ("JsonConverter", {"format": "text"}, None),
        (
            "org.apache.kafka.connect.json.JsonConverter",
            SALE,
            "reads totals as JSON with a schema in each record, and topologies.total writes "
            "JSON: set value.converter.schemas.enable: false",
        ),
        ("JsonConverter\n    value.converter.schemas.enable: false", SALE, None),
        (
            "AvroConverter\n    value.converter.schema.registry.url: http://r:8081",
            SALE,
            "reads totals as Avro of a registry, and topologies.total writes JSON",
        ),
    ],
)
def test_a_sink_is_checked_by_its_converter(
    converter: str, written: Mapping[str, Any], expected: str | None
) -> None:
    found = problems(TWO_APPS + FILE_SINK % converter, written)
    found = [each for each in found if "sinks.lake reads totals" in each]
    assert len(found) == (expected is not None), found
    if expected is not None:
        assert found[0].startswith(f"16: error: sinks.lake {expected}")


def test_an_app_is_checked_against_the_converter_of_a_source() -> None:
    text = TWO_APPS.replace("orders: {external: true}", "orders: {partitions: 1}")
    source = (
        "sources:\n  read:\n    connector.class: FileStreamSource\n    topic: sales\n"
        "    file: in.txt\n    value.converter: JsonConverter\n"
    )
    found = problems(text + source, None, SALE)
    assert (
        "10: error: topologies.total reads sales as JSON, and sources.read writes JSON with a "
        "schema in each record: set value.converter.schemas.enable: false there" in found
    )


def test_the_primary_key_of_a_database_sink_must_be_written() -> None:
    sink = FILE_SINK.replace("FileStreamSink", "JdbcSink").replace("    file: out.txt\n", "")
    sink = sink % "JsonConverter\n    value.converter.schemas.enable: false"
    more = "    connection.url: sqlite:///a.db\n    pk.mode: record_value\n    pk.fields: id, nr\n"
    found = problems(TWO_APPS + sink + more, SALE)
    assert [each for each in found if "reads" in each] == [
        "15: error: sinks.lake reads nr of totals, which topologies.total lacks (it has "
        "amount, id, name, note)"
    ]


def with_schema(text: str) -> str:
    return TWO_APPS.replace("sales: {partitions: 2}", f"sales: {{partitions: 2, schema: '{text}'}}")


def test_the_schema_of_a_topic_stands_between_its_writers_and_readers() -> None:
    good = "id BIGINT, name STRING, amount DOUBLE, note STRING"
    assert problems(with_schema(good), SALE, SALE) == []
    assert problems(with_schema("id BIGINT, amount INT, at TIMESTAMP"), SALE, None) == [
        "4: error: topics.sales.schema has amount of sales as INT, and topologies.join writes "
        "number",
        "4: warning: topics.sales.schema has at of sales, which topologies.join lacks "
        "(it has amount, id, name, note)",
    ]
    wanted = schema(id="string", at="string")
    assert problems(with_schema("id BIGINT, at TIMESTAMP"), None, wanted) == [
        "10: error: topologies.total reads id of sales as string, and topics.sales.schema has "
        "BIGINT"
    ]  # fmt: skip
    (wrong,) = problems(with_schema("id BIGITN"), SALE)
    assert wrong.startswith("4: error: topics.sales.schema: Spark has no type BIGITN")
    (reference,) = problems(with_schema("${env:COLUMNS}"), SALE)
    assert reference.startswith("4: error: topics.sales.schema cannot be a reference")


def test_the_schema_of_a_topic_may_be_in_a_registry() -> None:
    text = with_schema("http://registry:8081")
    assert problems(text, None, None) == [
        "4: warning: topics.sales.schema: its types are not checked: it does not answer"
    ]
    avro = Shape(AVRO, {})
    assert problems(text, None, SALE, avro) == [
        "10: error: topologies.total reads sales as JSON, and topics.sales.schema has Avro "
        "of a registry: use the same converter"
    ]
    assert problems(text, None, None, avro) == []


def test_shapes_are_read_from_ddl_json_schema_and_avro() -> None:
    ddl = "id BIGINT, `a b`: STRUCT<x: INT, y: MAP<STRING, INT>>, d DECIMAL(10, 2) NOT NULL"
    fields = ddl_fields(ddl)
    assert {name: each.text for name, each in fields.items()} == {
        "id": "BIGINT", "a b": "STRUCT", "d": "DECIMAL(10, 2)",
    }  # fmt: skip
    assert ddl_fields("") == {}
    assert json_schema_fields({"type": "integer"}) is None
    assert json_schema_fields({"$ref": "#/$defs/None"}) is None
    shape = schema_shape(
        "AVRO",
        '{"type": "record", "name": "S", "fields": [{"name": "id", "type": "long"}, '
        '{"name": "note", "type": ["null", "string"], "default": null}, '
        '{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}',
    )
    assert shape.fields is not None
    assert {name: (each.text, each.is_required) for name, each in shape.fields.items()} == {
        "id": ("integer", True), "note": ("string or null", False), "at": ("any type", True),
    }  # fmt: skip
    assert avro_fields("string") is None
    assert schema_shape("PROTOBUF", "message S {}").fields is None


APPS = """\
from dataclasses import dataclass
from moldau.streams import Streams

@dataclass(frozen=True)
class Sale:
    id: int
    name: str | None

@dataclass(frozen=True)
class Wanted:
    id: str
    name: str

def sale(value: Wanted) -> Sale:
    return Sale(1, None)

one, two = Streams("one"), Streams("two")
one.stream("orders", Wanted).map_values(sale).to("sales")
two.stream("sales", Wanted).to("totals")
"""


def test_apps_say_their_types_in_their_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "apps.py").write_text(APPS)
    file = tmp_path / "pipeline.yaml"
    file.write_text(TWO_APPS.replace("one:app", "apps:one").replace("two:app", "apps:two"))

    assert main(["pipeline", "lint", str(file)]) == 1
    lines = [each.split("pipeline.yaml:")[1] for each in capsys.readouterr().out.splitlines()]
    assert lines == [
        "10: error: topologies.total reads id of sales as string, and topologies.join writes "
        "integer",
        "10: warning: topologies.total reads name of sales as string, and topologies.join writes "
        "string or null",
    ]


@pytest.mark.real
def test_a_registry_says_which_fields_a_topic_has(moldau_broker: SyncEmbeddedBroker) -> None:
    with process(moldau_broker.bootstrap_servers) as (_, url):
        with SchemaRegistry(url) as registry:
            registry.register("pipeline-users-value", Schema(USER_2))
        found = registered_shape(url, "pipeline-users")
        missing = registered_shape(url, "pipeline-orders")

    assert isinstance(found, Shape)
    assert found.format == AVRO
    assert found.fields is not None
    assert {name: (each.text, each.is_required) for name, each in found.fields.items()} == {
        "name": ("string", True),
        "age": ("integer", False),
    }
    assert isinstance(missing, str)
    assert "pipeline-orders-value" in missing


def test_a_registry_that_does_not_answer_is_a_reason() -> None:
    found = registered_shape(f"http://127.0.0.1:{free_ports(1)[0]}", "orders")
    assert isinstance(found, str)
    assert "\n" not in found
