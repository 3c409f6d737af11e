"""`moldau consume` and `produce` with the schemas of a registry."""

from __future__ import annotations

import json
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

    for wrong, told in (("{", "line 2 is no JSON"), ('{"nam": "x"}', "line")):
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
    for wrong, told in (('{"nme": "x"}', "nme"), ('{"age": "old"}', "age"), ("7", "mapping")):
        done = shell("produce", *words, source=f'{{"name": "eva"}}\n{wrong}\n')
        assert (done.code > 0, done.out, done.err.count("\n")) == (True, "", 1), done
        assert told in done.err
        assert "line=2" in done.err
        assert "internal error" not in done.err
    done = shell("produce", "sent-proto", "--value-schema", "avro", source="{}\n")
    assert (done.code, done.err.count("\n"), "PROTOBUF" in done.err) == (1, 1, True)


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
