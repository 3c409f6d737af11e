"""`moldau consume` and `produce` with the schemas of a registry."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.sync import Producer
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell
from tests.registry.served import USER, process

pytestmark = pytest.mark.real

AVRO = json.dumps({
    "type": "record", "name": "User",
    "fields": [{"name": "name", "type": "string"}, {"name": "photo", "type": "bytes"},
               {"name": "born", "type": {"type": "int", "logicalType": "date"}}],
})  # fmt: skip
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"name": {"type": "string"}}})
PROTOBUF = 'syntax = "proto3"; message User { string name = 1; int64 age = 2; }'


@pytest.fixture(scope="module")
def registry(moldau_broker: SyncEmbeddedBroker) -> Iterator[str]:
    with process(moldau_broker.bootstrap_servers) as (_, url):
        yield url


@pytest.fixture
def shell(moldau_broker: SyncEmbeddedBroker, registry: str) -> Shell:
    made = Shell(moldau_broker.bootstrap_servers)
    made.environment["MOLDAU_REGISTRY"] = registry
    return made


def put(shell: Shell, tmp_path: Path, topic: str, name: str, text: str) -> None:
    """Make the topic and its schema."""
    shell.good("topic", "create", topic, "-p", "2")
    (tmp_path / name).write_text(text)
    shell.good("schema", "put", f"{topic}-value", str(tmp_path / name))


def send(shell: Shell, topic: str, kind: str, value: object) -> None:
    settings = {
        "bootstrap.servers": shell.environment["MOLDAU_BOOTSTRAP"],
        "schema.registry.url": shell.environment["MOLDAU_REGISTRY"],
        "value.serializer": kind, "auto.register.schemas": "false", "use.latest.version": "true",
    }  # fmt: skip
    with Producer(settings) as producer:
        producer.send_and_wait(topic, value)


def test_avro_is_shown_as_json(shell: Shell, tmp_path: Path) -> None:
    put(shell, tmp_path, "avro-users", "user.avsc", AVRO)
    send(shell, "avro-users", "avro", {"name": "J\u00fcrg", "photo": b"\xff", "born": 0})
    shown = {"name": "J\u00fcrg", "photo": {"base64": "/w=="}, "born": "1970-01-01"}
    words = ("consume", "avro-users", "--value-schema", "avro")
    said = shell.good(*words).out
    assert json.loads(said) == shown
    assert "J\u00fcrg" in said
    assert json.loads(shell.good(*words, "--json").out)["value"] == shown
    assert json.loads(shell.good(*words, "--format", r"%v\n").out) == shown
    assert shell.good(*words, "--registry", shell.environment.pop("MOLDAU_REGISTRY")).out == said


def test_json_schema_is_shown_as_json(shell: Shell, tmp_path: Path) -> None:
    put(shell, tmp_path, "json-users", "user.json", JSON_SCHEMA)
    send(shell, "json-users", "json-schema", {"name": "ann"})
    said = shell.good("consume", "json-users", "--value-schema", "json-schema").out
    assert json.loads(said) == {"name": "ann"}


def test_protobuf_is_shown_as_json(shell: Shell, tmp_path: Path) -> None:
    put(shell, tmp_path, "proto-users", "user.proto", PROTOBUF)
    made = shell.good("schema", "get", "proto-users-value", "--json").json
    framed = b"\0" + made["id"].to_bytes(4, "big") + b"\0" + b"\x0a\x03ann\x10\x07"
    with Producer({"bootstrap.servers": shell.environment["MOLDAU_BOOTSTRAP"]}) as producer:
        producer.send_and_wait("proto-users", framed)
    said = shell.good("consume", "proto-users", "--value-schema", "protobuf").out
    assert json.loads(said) == {"name": "ann", "age": "7"}


def test_lines_of_json_are_written_by_the_latest_schema(shell: Shell, tmp_path: Path) -> None:
    put(shell, tmp_path, "sent-users", "user.avsc", USER)
    lines = '{"name": "ann"}\n-\n{"name": "bob"}\n'
    words = ("sent-users", "--value-schema", "avro")
    shell.good("produce", *words, "--null", "-", "--partition", "1", source=lines)
    read = shell.good("consume", *words).out.splitlines()
    assert read == ['{"name": "ann"}', "null", '{"name": "bob"}']

    for wrong, told in (("{", "it is no JSON"), ('{"nam": "x"}', "line")):
        done = shell("produce", *words, source=f'{{"name": "eva"}}\n{wrong}\n')
        assert (done.code > 0, done.err.count("\n") <= 2) == (True, True), done
        assert told in done.err
        assert "internal error" not in done.err
    done = shell("produce", "sent-users", "--value-schema", "avro", "--json")
    assert (done.code, "not with --json" in done.err) == (2, True)

    put(shell, tmp_path, "sent-json", "user.json", JSON_SCHEMA)
    shell.good("schema", "put", "sent-json-key", str(tmp_path / "user.json"))
    both = ("sent-json", "--key-schema", "json-schema", "--value-schema", "json-schema")
    shell.good("produce", *both, "--keys", "--separator", "|", source='{"name":"a"}|{"name":"b"}\n')
    said = shell.good("consume", *both, "--keys", "--separator", "|").out
    assert said == '{"name": "a"}|{"name": "b"}\n'


def test_lines_of_json_are_written_as_protobuf(shell: Shell, tmp_path: Path) -> None:
    put(shell, tmp_path, "sent-proto", "user.proto", PROTOBUF)
    (tmp_path / "base.proto").write_text('syntax = "proto3"; message Base { string id = 1; }')
    shell.good("schema", "put", "sent-proto-key", str(tmp_path / "base.proto"))
    both = ("sent-proto", "--key-schema", "protobuf", "--value-schema", "protobuf")
    lines = '{"id":"k1"}|{"name": "ann", "age": 9007199254740993}\n{"id":"k2"}|-\n'
    keyed = (*both, "--keys", "--separator", "|")
    shell.good("produce", *keyed, "--null", "-", "--partition", "1", source=lines)
    said = shell.good("consume", *both, "--format", r"%p %k %v\n").out.splitlines()
    assert said == [
        '1 {"id": "k1"} {"name": "ann", "age": "9007199254740993"}', '1 {"id": "k2"} ',
    ]  # fmt: skip

    words = ("sent-proto", "--value-schema", "protobuf")
    for wrong, told in (('{"nme": "x"}', "nme"), ('{"age": "old"}', "age"), ("7", "object")):
        done = shell("produce", *words, source=f'{{"name": "eva"}}\n{wrong}\n')
        assert (done.code > 0, done.out, done.err.count("\n")) == (True, "", 1), done
        assert told in done.err
        assert "line=2" in done.err
        assert "internal error" not in done.err
    done = shell("produce", "sent-proto", "--value-schema", "avro", source="{}\n")
    assert (done.code, done.err.count("\n"), "PROTOBUF" in done.err) == (1, 1, True)


@pytest.mark.parametrize(
    ("kind", "schema", "lines"),
    [
        ("avro", None, ["{}"]),
        ("protobuf", None, ["{}"]),
        ("json-schema", None, ["{}"]),
        ("avro", USER, ["no", "[1]", "5", "{}", '{"name": 1}', '{"name": []}']),
        ("protobuf", PROTOBUF, ["no", "[1]", "5", "true"]),
        ("json-schema", JSON_SCHEMA, ["no", "[1]", '{"name": 1}']),
        ("json-schema", USER, ["{}"]),
    ],
)
def test_an_error_of_a_line_has_no_types_of_python(
    kind: str, schema: str | None, lines: list[str], shell: Shell, tmp_path: Path
) -> None:
    ends = {"avro": "avsc", "protobuf": "proto", "json-schema": "json"}
    topic = f"typed-{kind}-{len(schema or '')}"
    if schema is None:
        shell.good("topic", "create", topic)
    else:
        ending = "avsc" if schema is USER else ends[kind]
        put(shell, tmp_path, topic, f"user.{ending}", schema)
    for line in lines:
        done = shell("produce", topic, "--value-schema", kind, source=f"{line}\n")
        assert (done.code > 0, "line=1" in done.err) == (True, True), done
        assert not re.search(r"'?\b(str|int|list|dict|bool|NoneType)\b'?[,)]", done.err), done
        assert "value.serializer" not in done.err


def test_a_profile_names_the_registry(shell: Shell, registry: str, tmp_path: Path) -> None:
    put(shell, tmp_path, "named-users", "user.avsc", AVRO)
    send(shell, "named-users", "avro", {"name": "ann", "photo": b"", "born": 0})
    bootstrap = shell.environment["MOLDAU_BOOTSTRAP"]
    shell.environment = {"HOME": str(tmp_path)}
    shell.good("profile", "create", "here", "-b", bootstrap, "--registry", registry)
    assert "ann" in shell.good("consume", "named-users", "--value-schema", "avro").out


def test_what_no_schema_wrote_is_told_in_a_line(shell: Shell) -> None:
    shell.good("topic", "create", "plain", "-p", "2")
    shell.good("produce", "plain", source="no schema\n")
    done = shell("consume", "plain", "--value-schema", "avro")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "plain" in done.err
    assert "internal error" not in done.err

    done = shell("consume", "plain", "--registry", "http://localhost:1")
    assert done.code == 2
    assert "--value-schema" in done.err


LOGICAL = json.dumps({
    "type": "record", "name": "Order",
    "fields": [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "total", "type": ["null", {
            "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "photo", "type": "bytes"},
    ],
})  # fmt: skip
TYPES = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message Order {
  google.protobuf.Timestamp at = 1;
  google.protobuf.Duration took = 2;
  google.protobuf.Int64Value note = 3;
  bytes photo = 4;
  map<string, double> prices = 5;
  enum Kind { NONE = 0; NEW = 1; }
  repeated Kind kinds = 6;
  oneof one { fixed64 big = 7; float small = 8; }
}
"""


def test_what_consume_writes_produce_reads(shell: Shell, tmp_path: Path) -> None:
    """Of the formats with types that JSON has not, by the commands as a pipe joins them."""
    orders = {
        "avro": (
            LOGICAL,
            '{"day": "2026-11-29", "at": "2026-11-29 10:00:00.000001+00:00", '
            '"local": "1969-12-31 23:59:59.999000", "time": "23:59:59.999000", "total": "-1.50", '
            '"id": "00000000-0000-0000-0000-000000000007", "photo": {"base64": "/w=="}}',
        ),
        "protobuf": (
            TYPES,
            '{"at": "2026-11-29T10:00:00.000000001Z", "took": "1.500s", '
            '"note": "9007199254740993", "photo": "/w==", "prices": {"a": 0.1}, '
            '"kinds": ["NEW", "NONE"], "small": "NaN"}',
        ),
    }
    for kind, (schema, line) in orders.items():
        schema_of = ("--value-schema", kind)
        for topic in (f"first-{kind}", f"second-{kind}"):
            name = "order.avsc" if kind == "avro" else "order.proto"
            put(shell, tmp_path, topic, name, schema)
        shell.good("produce", f"first-{kind}", *schema_of, source=f"{line}\n")
        read = shell.good("consume", f"first-{kind}", *schema_of).out
        shell.good("produce", f"second-{kind}", *schema_of, source=read)
        assert shell.good("consume", f"second-{kind}", *schema_of).out == read
        raw = [shell.good("consume", f"{at}-{kind}", "--json").json for at in ("first", "second")]
        assert raw[0]["value"] == raw[1]["value"]


def test_lines_go_to_a_topic_with_fewer_partitions_by_their_keys(shell: Shell) -> None:
    shell.good("topic", "create", "by-key-wide", "-p", "6")
    shell.good("topic", "create", "by-key-narrow", "-p", "2")
    shell.good("produce", "by-key-wide", "--keys", source="".join(f"k{n}:{n}\n" for n in range(50)))
    read = shell.good("consume", "by-key-wide", "--json").out
    assert shell("produce", "by-key-narrow", "--json", source=read).code > 0
    shell.good("produce", "by-key-narrow", "--json", "--by-key", source=read)
    keyed = {
        json.loads(line)["key"]
        for line in shell.good("consume", "by-key-narrow", "--json").out.splitlines()
    }
    assert len(keyed) == 50
    for wrong in (("--by-key",), ("--json", "--by-key", "--partition", "1")):
        assert shell("produce", "by-key-narrow", *wrong, source="a\n").code == 2


def test_a_load_of_json_is_json(shell: Shell) -> None:
    shell.good("topic", "create", "load-of-json", "-p", "2")
    for size in (60, 100, 2000):
        assert shell("produce", "load-of-json", "--count", "1500", "--size", str(size)).code == 0
    assert shell("produce", "load-of-json", "--count", "3", "--size", "9").code == 0
    values = shell.good("consume", "load-of-json").out.splitlines()
    sizes = {len(each) for each in values}
    assert sizes == {9, 60, 100, 2000}
    assert all(json.loads(each)["number"] >= 0 for each in values if len(each) > 9)
