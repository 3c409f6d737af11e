"""Registry clients of others against our registry: confluent-kafka's, npm's, Go's and Java's. The
last is Spring Cloud's, as Confluent's own is not on Maven Central."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.conformance.built import go_program, npm_modules
from tests.peers.apache_kafka import PeerMissing, cache_folder, fetch_jars
from tests.registry.served import USER, USER_2, USER_BAD, process
from tests.suites import may_use_java

pytestmark = [pytest.mark.real, pytest.mark.deep]

SPRING = "1.1.5"
KAFKAJS = {"@kafkajs/confluent-schema-registry": "4.1.0"}
CONFLUENT = {"@confluentinc/schemaregistry": "1.10.1"}


@pytest.fixture(scope="module")
def url(moldau_broker: SyncEmbeddedBroker) -> Iterator[str]:
    with process(moldau_broker.bootstrap_servers) as (_, url):
        yield url


def test_confluents_python_client(url: str) -> None:
    peer = pytest.importorskip("confluent_kafka.schema_registry", reason="a peer")
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro", reason="a peer")
    serialization = pytest.importorskip("confluent_kafka.serialization")
    with peer.SchemaRegistryClient({"url": url}) as client:
        _use(client, peer, avro, serialization)


def _use(client: Any, peer: Any, avro: Any, serialization: Any) -> None:
    schema_id = client.register_schema("cc-value", peer.Schema(USER, "AVRO"))
    assert client.get_schema(schema_id).schema_str == USER
    assert client.get_latest_version("cc-value").version == 1
    assert client.test_compatibility("cc-value", peer.Schema(USER_2, "AVRO"))
    assert not client.test_compatibility("cc-value", peer.Schema(USER_BAD, "AVRO"))
    assert client.lookup_schema("cc-value", peer.Schema(USER, "AVRO")).schema_id == schema_id
    client.set_compatibility("cc-value", level="FULL")
    assert client.get_compatibility("cc-value") == "FULL"
    assert client.get_versions("cc-value") == [1]
    with pytest.raises(peer.SchemaRegistryError) as refused:
        client.register_schema("cc-value", peer.Schema('"int"', "AVRO"))
    assert refused.value.http_status_code == 409
    place = serialization.SerializationContext("cc", serialization.MessageField.VALUE)
    write = avro.AvroSerializer(client, USER)
    read = avro.AvroDeserializer(client)
    assert read(write({"name": "ann"}, place), place) == {"name": "ann"}
    assert client.delete_subject("cc-value") == [1]
    assert client.delete_subject("cc-value", permanent=True) == [1]


_KAFKAJS_PROGRAM = """
const { SchemaRegistry, SchemaType } = require('@kafkajs/confluent-schema-registry')
const [url, schema] = process.argv.slice(1)
async function main() {
  const registry = new SchemaRegistry({ host: url })
  const { id } = await registry.register(
    { type: SchemaType.AVRO, schema }, { subject: 'kafkajs-value' })
  const bytes = await registry.encode(id, { name: 'ann' })
  const read = await registry.decode(bytes)
  const latest = await registry.getLatestSchemaId('kafkajs-value')
  console.log(JSON.stringify({ id, latest, name: read.name }))
}
main().catch(error => { console.error(error); process.exit(1) })
"""


def test_kafkajs_client(url: str) -> None:
    node, modules = npm_modules("kafkajs-registry", KAFKAJS)
    told = json.loads(_run([node, "-e", _KAFKAJS_PROGRAM, url, USER], NODE_PATH=str(modules)))
    assert told["name"] == "ann"
    assert told["id"] == told["latest"] > 0


_CONFLUENT_PROGRAM = """
const { SchemaRegistryClient } = require('@confluentinc/schemaregistry')
const [url, schema, next, bad] = process.argv.slice(1)
async function main() {
  const client = new SchemaRegistryClient({ baseURLs: [url] })
  const id = await client.register('npm-value', { schema, schemaType: 'AVRO' })
  const fits = schema =>
    client.testSubjectCompatibility('npm-value', { schema, schemaType: 'AVRO' })
  const good = await fits(next)
  const worse = await fits(bad)
  const latest = await client.getLatestSchemaMetadata('npm-value')
  const found = await client.getBySubjectAndId('npm-value', id)
  console.log(JSON.stringify({ id, good, worse, latest: latest.id, text: found.schema }))
}
main().catch(error => { console.error(error); process.exit(1) })
"""


def test_confluents_javascript_client(url: str) -> None:
    node, modules = npm_modules("confluent-registry", CONFLUENT)
    words = [node, "-e", _CONFLUENT_PROGRAM, url, USER, USER_2, USER_BAD]
    told = json.loads(_run(words, NODE_PATH=str(modules)))
    assert (told["good"], told["worse"], told["text"]) == (True, False, USER)
    assert told["id"] == told["latest"] > 0


def test_go_client(url: str) -> None:
    program = go_program("registry")
    told = json.loads(_run([program, url, USER, USER_2, USER_BAD]))
    assert (told["good"], told["worse"], told["text"]) == (True, False, USER)
    assert told["versions"] == [1]
    assert told["missing"] == 40403


def test_spring_clouds_java_client(url: str) -> None:
    jars = cache_folder().parent / "spring-registry" / SPRING
    try:
        if not jars.is_dir():
            fetch_jars(
                jars, [f"org.springframework.cloud:spring-cloud-schema-registry-client:{SPRING}"]
            )
    except PeerMissing as missing:
        pytest.skip(f"Spring Cloud's registry client cannot be had here: {missing}")
    may_use_java()
    source = Path(__file__).with_name("SpringClient.java")
    told = _printed(["java", "-cp", f"{jars}{os.sep}*", str(source), url, USER])
    own = [line.removeprefix("> ") for line in told if line.startswith("> ")]
    assert own == ["same", USER, USER, "not found"]


def _run(command: list[str], **environment: str) -> str:
    return _printed(command, **environment)[-1]


def _printed(command: list[str], **environment: str) -> list[str]:
    done = subprocess.run(  # noqa: S603 - programs of this folder
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()
