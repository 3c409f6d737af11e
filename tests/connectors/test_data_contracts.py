"""Whatever writes or reads values by a registered schema refuses one with rules, unless told to
leave them aside: Connect's converters, Spark's reader and writer, the console; all three types."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from moldau.client.serdes.contract import Place
from moldau.client.serdes.registry.contract_rules import RulesNotRun
from moldau.client.serdes.registry.schemas import Config
from moldau.client.sync import SchemaRegistry
from moldau.connect.converters.avro import AvroConverter
from moldau.connect.converters.protobuf import ProtobufConverter
from moldau.connect.converters.registered import RegisteredConverter
from moldau.connect.converters.registered_json import JsonSchemaConverter
from moldau.connect.data import INT64, STRING, Schema, Struct
from moldau.connectors.spark.avro_values import AvroValues
from moldau.console.pages.decoding import Decoder
from moldau.console.pages.encoding import Encoder
from moldau.console.pages.rendering import BadForm
from moldau.spark.registry import RegistryReader, registered_ddl
from moldau.testing import SyncEmbeddedBroker
from moldau.values.schema import Schema as RegistrySchema
from tests.registry.served import process

pytestmark = pytest.mark.real

ROW = Schema.struct({"id": INT64, "name": STRING}, name="Row")
VALUE = Struct(ROW, {"id": 1, "name": "Ada"})
TEXT = '{"id": 1, "name": "Ada"}'
RULES = {"domainRules": [{"name": "positive", "kind": "CONDITION", "type": "CEL",
                          "mode": "WRITEREAD", "expr": "message.id > 0"}]}  # fmt: skip
FORMATS: Final[dict[str, type[RegisteredConverter]]] = {
    "avro": AvroConverter,
    "json": JsonSchemaConverter,
    "protobuf": ProtobufConverter,
}


@pytest.fixture(scope="module")
def url(moldau_broker: SyncEmbeddedBroker) -> Iterator[str]:
    with process(moldau_broker.bootstrap_servers) as (_, address):
        yield address


def converter(kind: str, url: str, **props: str) -> RegisteredConverter:
    made = FORMATS[kind]()
    given = {name.replace("_", "."): text for name, text in props.items()}
    made.configure({"schema.registry.url": url, **given}, False)
    return made


def under_contract(kind: str, url: str, topic: str) -> None:
    """Register the row's schema for the topic, with rules."""
    made = converter(kind, url)
    schema, _ = made.registered(ROW, VALUE)
    with SchemaRegistry(url) as registry:
        whole = RegistrySchema(schema.text, schema.type, rules=RULES)
        registry.register(f"{topic}-value", whole)
        registry.set_config(Config("NONE"), f"{topic}-value")
    made.close()


def refused(call: Callable[[], Any]) -> None:
    with pytest.raises((RulesNotRun, BadForm), match=r"positive.*data\.contract\.rules=ignore"):
        call()


@pytest.mark.parametrize("kind", FORMATS)
def test_converters_write_and_read_nothing_past_a_contract(kind: str, url: str) -> None:
    topic = f"connect-{kind}"
    under_contract(kind, url, topic)
    free = converter(kind, url, data_contract_rules="ignore")
    data = free.from_connect_data(topic, None, ROW, VALUE)
    assert data is not None
    assert free.to_connect_data(topic, None, data).value["name"] == "Ada"
    free.close()
    wider = Schema.struct({**{f.name: f.schema for f in ROW.fields}, "n": INT64.optionally()},
                          name="Row")  # fmt: skip
    for schema, value, options in (
        (ROW, VALUE, {}),
        (ROW, VALUE, {"auto_register_schemas": "false"}),
        (ROW, VALUE, {"use_latest_version": "true"}),
        (ROW, VALUE, {"use_schema_id": str(int.from_bytes(data[1:5], "big"))}),
        (wider, Struct(wider, {"id": 1, "name": "Ada", "n": None}), {}),  # it inherits the rules
    ):
        made = converter(kind, url, **options)
        refused(lambda: made.from_connect_data(topic, None, schema, value))  # noqa: B023
        refused(lambda: made.to_connect_data(topic, None, data))  # noqa: B023
        made.close()


@pytest.mark.parametrize("kind", FORMATS)
def test_spark_reads_and_writes_nothing_past_a_contract(kind: str, url: str) -> None:
    topic = f"spark-{kind}"
    under_contract(kind, url, topic)
    free = converter(kind, url, data_contract_rules="ignore")
    data = free.from_connect_data(topic, None, ROW, VALUE)
    assert data is not None
    free.close()
    refused(lambda: registered_ddl(url, topic, kind))
    refused(lambda: RegistryReader(url, kind)(data))
    assert "`name`: STRING" in registered_ddl(url, topic, kind, checks_rules=False)
    assert RegistryReader(url, kind, checks_rules=False)(data)["name"] == "Ada"
    if kind == "avro":
        with SchemaRegistry(url) as registry:
            schema = registry.latest(f"{topic}-value").schema.text
        refused(lambda: AvroValues(topic, schema, url)._register(url, schema))
        assert AvroValues(topic, schema, url, checks_rules=False)._register(url, schema) > 0


@pytest.mark.parametrize("kind", FORMATS)
def test_the_console_shows_and_writes_nothing_past_a_contract(kind: str, url: str) -> None:
    place = Place(f"console-{kind}", False)
    under_contract(kind, url, place.topic)

    async def main() -> None:
        strict = Decoder({"schema.registry.url": url})
        free = Decoder({"schema.registry.url": url, "data.contract.rules": "ignore"})
        data = await Encoder(free).data(TEXT, place)
        assert "Ada" in await free.text(data, place, {}, 1000)
        shown = await strict.text(data, place, {}, 1000)
        assert "not decoded" in shown
        assert "data.contract.rules=ignore" in shown
        with pytest.raises(BadForm, match=r"data\.contract\.rules=ignore"):
            await Encoder(strict).data(TEXT, place)
        await strict.aclose()
        await free.aclose()

    asyncio.run(main())
