"""Dead letters of values with a Schema Registry: a real broker, a real Spark, a registry's HTTP."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

pytest.importorskip("pyarrow")

from moldau.client.sync import Producer, SchemaRegistry
from moldau.runtime.real import RealClock
from moldau.testing import SyncEmbeddedBroker
from moldau.values.schema import Schema
from tests.client.serdes.served_registry import ServedRegistry, served_registry
from tests.connect.committed import read
from tests.connectors.spark.runners import ids_in, need_spark, orders_lake, running
from tests.peers.eventually import eventually
from tests.spark.topics import make_topic, send_aborted

pytestmark = pytest.mark.real

AVRO: Final = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
JSON: Final = {"type": "object", "properties": {"id": {"type": "integer"}}}
NOW_MS: Final = RealClock().wall_ms()
UNKNOWN: Final = b"\0\0\1\0\0"
"""Before a value: the id of a schema that the registry does not have."""


@pytest.fixture(autouse=True)
def _spark() -> None:
    need_spark()


@pytest.fixture
def served() -> Iterator[ServedRegistry]:
    with served_registry() as found:
        yield found


class Sent(NamedTuple):
    """A record as it is produced."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = NOW_MS


class Kind(NamedTuple):
    """Values of one format: the prefix of each, and one of a number without its prefix."""

    format: str
    start: bytes

    def good(self, number: int) -> bytes:
        return self.start + self.bare(number)

    def bare(self, number: int) -> bytes:
        if self.format == "json":
            return json.dumps({"id": number}).encode()
        if self.format == "protobuf":
            return b"\x08" + _varint(number)
        out = io.BytesIO()
        pytest.importorskip("fastavro").schemaless_writer(out, AVRO, {"id": number})
        return out.getvalue()

    def bad(self) -> list[bytes]:
        """Bytes behind a value, a cut one, no prefix, nothing, an unknown schema, no UTF-8."""
        whole = self.good(1)
        cut = whole[:-1]  # of Protobuf, no bytes at all are a value
        return [
            whole + b"\x03", cut, b"{broken", b"", UNKNOWN + self.bare(1),
            self.start + b"\xff\xfe\xfd",
        ]  # fmt: skip


def _varint(number: int) -> bytes:
    assert 0 <= number < 128
    return bytes([number])


def kind_of(served: ServedRegistry, topic: str, name: str) -> Kind:
    """With its schema in the registry."""
    if name == "protobuf":
        files = pytest.importorskip("google.protobuf.descriptor_pb2")
        file = files.FileDescriptorProto(name="order.proto", syntax="proto3")
        field = files.FieldDescriptorProto
        file.message_type.add(name="Order").field.add(
            name="id", number=1, type=field.TYPE_INT64, label=field.LABEL_OPTIONAL
        )
        schema = Schema(base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    else:
        schema = Schema(json.dumps(JSON), "JSON") if name == "json" else Schema(json.dumps(AVRO))
    with SchemaRegistry(served.url) as registry:
        number = registry.register(f"{topic}-value", schema)
    indexes = b"\0" if name == "protobuf" else b""
    return Kind(name, b"\0" + number.to_bytes(4, "big") + indexes)


def produce(broker: SyncEmbeddedBroker, topic: str, records: Sequence[Sent]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for each in records:
            producer.send(
                topic, each.value, key=each.key, headers=list(each.headers), partition=0,
                timestamp_ms=each.timestamp_ms,
            )  # fmt: skip


def is_whole(letter: Any, sent: Sent) -> bool:
    """Whether it has all that was produced, with the headers that say why behind its own."""
    own = [(name, text) for name, text in letter.headers if not name.startswith("__connect")]
    return (letter.value, letter.key, tuple(own), letter.timestamp) == tuple(sent)


def told(letter: Any) -> dict[str, str]:
    """What the letter says about itself."""
    prefix = "__connect.errors."
    return {
        name.removeprefix(prefix): text.decode()
        for name, text in letter.headers
        if name.startswith(prefix)
    }


def config_of(
    topic: str, kind: Kind, served: ServedRegistry, folder: Path, **more: str
) -> dict[str, str]:
    config = orders_lake(topic, folder)
    del config["value.schema"]
    return {
        **config,
        "value.format": kind.format,
        "value.registry": served.url,
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-dlq",
        **more,
    }


@pytest.mark.parametrize("name", ["avro", "json", "protobuf"])
def test_bad_values_of_a_registry_are_dead_letters_as_they_came_and_only_once(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    served: ServedRegistry,
    name: str,
) -> None:
    letters = f"{moldau_topic}-dlq"
    make_topic(moldau_broker, moldau_topic, 1)
    make_topic(moldau_broker, letters, 1)
    kind = kind_of(served, moldau_topic, name)
    keys = [None, b"", b"\xff\0key", b"plain"]
    headers = [(), (("trace", b"1"), ("trace", b"\xff\0"), ("none", None), ("empty", b""))]
    bad = [
        Sent(value, keys[index % 4], headers[index % 2], NOW_MS - index)
        for index, value in enumerate(kind.bad())
    ]
    good = [Sent(kind.good(number), b"k") for number in range(10)]
    produce(moldau_broker, moldau_topic, [*good[:5], *bad, Sent(None, b"tombstone"), *good[5:]])
    send_aborted(moldau_broker, moldau_topic, [b"bad and aborted", kind.good(99)])
    config = config_of(moldau_topic, kind, served, tmp_path)

    with running(moldau_broker, moldau_topic, config) as events:
        events.until("finished")

    assert ids_in(tmp_path / "orders") == list(range(10))
    found = read(moldau_broker.bootstrap_servers, letters)
    assert [each.value for each in found] == [each.value for each in bad]
    assert all(map(is_whole, found, bad))
    assert [told(each)["offset"] for each in found] == [str(5 + each) for each in range(len(bad))]
    facts = told(found[0])
    assert (facts["topic"], facts["partition"], facts["task.id"]) == (moldau_topic, "0", "0")
    assert (facts["connector.name"], facts["stage"]) == (moldau_topic, "VALUE_CONVERTER")
    assert f"topic {moldau_topic}, partition 0, offset 5" in facts["exception.message"]

    if name != "avro":  # what is sent again does not depend on the format
        return
    more = Sent(b"more", b"m")
    produce(moldau_broker, moldau_topic, [Sent(kind.good(10)), more])
    with running(moldau_broker, moldau_topic, config) as events:
        events.until("finished")
    assert ids_in(tmp_path / "orders") == list(range(11))
    found = read(moldau_broker.bootstrap_servers, letters)
    assert len(found) == len(bad) + 1, "a restart repeats no letter"
    assert is_whole(found[-1], more)


def test_a_runner_that_is_killed_writes_each_dead_letter_once(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path, served: ServedRegistry
) -> None:
    letters = f"{moldau_topic}-dlq"
    make_topic(moldau_broker, moldau_topic, 1)
    make_topic(moldau_broker, letters, 1)
    kind = kind_of(served, moldau_topic, "avro")
    records = [
        Sent(kind.good(number) + b"x" * (number % 2), str(number).encode()) for number in range(100)
    ]
    produce(moldau_broker, moldau_topic, records)
    small = {"max.offsets.per.trigger": "20"}
    config = config_of(moldau_topic, kind, served, tmp_path, **small)

    with running(moldau_broker, moldau_topic, config) as events:
        eventually(lambda: len(read(moldau_broker.bootstrap_servers, letters)) >= 10, within_s=240)
        events.process.kill()
    with running(moldau_broker, moldau_topic, config) as events:
        events.until("finished")

    assert ids_in(tmp_path / "orders") == list(range(0, 100, 2))
    found = read(moldau_broker.bootstrap_servers, letters)
    assert [each.key for each in found] == [each.key for each in records[1::2]]
    assert all(is_whole(each, records[int(each.key)]) for each in found)
