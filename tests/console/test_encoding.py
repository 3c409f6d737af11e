"""A record from the page's form: by the schema of its topic, with headers, or refused."""

from __future__ import annotations

import asyncio

import pytest

from moldau.client import Consumer
from moldau.client.serdes.registry.client import SchemaRegistry
from moldau.console.pages.encoding import are_exact, headers_of
from moldau.console.pages.rendering import BadForm
from moldau.link.metadata import TopicPartition
from moldau.testing import SyncEmbeddedBroker
from tests.console.schemas import BIG, SCHEMAS
from tests.console.shown import browser
from tests.registry.served import process

GOOD = f'{{"name": "Ada", "n": {BIG}}}'


async def _last(servers: str, url: str, topic: str, kind: str | None) -> tuple[object, object]:
    """The value and the headers of the newest record."""
    settings = {"bootstrap.servers": servers, "schema.registry.url": url}
    if kind is not None:
        settings["value.deserializer"] = kind
    async with Consumer({**settings, "auto.offset.reset": "earliest"}) as consumer:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, (await consumer.end_offsets([place]))[place] - 1)
        for part in await consumer.poll(30):
            for each in part.records:
                return each.value, [(name, bytes(data or b"")) for name, data in each.headers]
    raise AssertionError("no record")


@pytest.mark.real
def test_a_tombstone_with_a_value_is_refused(moldau_broker: SyncEmbeddedBroker) -> None:
    async def run() -> None:
        async with browser(moldau_broker.bootstrap_servers) as client:
            await client.post("/topics", data={"name": "form-null", "partitions": "1"})
            form = {"key": "a", "tombstone": "1"}
            refused = await client.post(
                "/topics/form-null/messages", data={**form, "value": "text"}
            )
            assert (refused.status_code, "untick" in refused.text) == (400, True)
            sent = await client.post("/topics/form-null/messages", data={**form, "value": " "})
            assert sent.status_code == 200

    asyncio.run(run())


@pytest.mark.real
def test_a_record_is_written_by_the_schema_of_its_topic(moldau_broker: SyncEmbeddedBroker) -> None:
    servers = moldau_broker.bootstrap_servers

    async def run(url: str) -> None:
        async with SchemaRegistry(url) as registry:
            for kind, schema in SCHEMAS.items():
                await registry.register(f"form-{kind}-value", schema)
        async with browser(servers, registry=url) as client:
            for kind in (*SCHEMAS, "plain"):
                await client.post("/topics", data={"name": f"form-{kind}", "partitions": "1"})
            for kind in SCHEMAS:
                form = {"value": GOOD, "headers": "from: the page\r\nempty:"}
                sent = await client.post(f"/topics/form-{kind}/messages", data=form)
                assert sent.status_code == 200, sent.text
            value, headers = await _last(servers, url, "form-avro", "avro")
            assert value == {"name": "Ada", "n": BIG}
            assert headers == [("from", b"the page"), ("empty", b"")]
            assert (await _last(servers, url, "form-json-schema", "json-schema"))[0] == value
            for kind, text, why in (
                ("avro", '{"name": 3, "n": 1}', "does not fit the schema of form-avro-value"),
                ("avro", "plain words", "write JSON that fits it"),
                ("protobuf", '{"nothing": 1}', "does not fit the schema of form-protobuf-value"),
            ):
                refused = await client.post(f"/topics/form-{kind}/messages", data={"value": text})
                assert (refused.status_code, why in refused.text) == (400, True), refused.text
            assert (
                await client.post("/topics/form-plain/messages", data={"value": "hi"})
            ).is_success
            assert (await _last(servers, url, "form-plain", None))[0] == b"hi"

    with process(servers) as (_, url):
        asyncio.run(run(url))

    async def without_its_registry() -> None:
        async with browser(servers, registry=url) as client:
            refused = await client.post("/topics/form-plain/messages", data={"value": "lost"})
            assert (refused.status_code, "registry" in refused.text) == (502, True)
        assert (await _last(servers, url, "form-plain", None))[0] == b"hi"

    asyncio.run(without_its_registry())


def test_headers_are_lines_with_a_name() -> None:
    assert headers_of("a: 1\r\n\r\nb:2\nc: x: y") == [("a", b"1"), ("b", b"2"), ("c", b"x: y")]
    for text in ("a", ": b", " : b"):
        with pytest.raises(BadForm, match="line 1"):
            headers_of(text)


def test_headers_that_lines_cannot_hold_are_not_exact() -> None:
    assert are_exact((("a", b"1"), ("b", b"")), (("a", "1"), ("b", "")))
    assert not are_exact((("a", None),), (("a", ""),))
    assert not are_exact((("a", b"\xff"),), (("a", "0xff"),))
    assert not are_exact((("a:b", b"1"),), (("a:b", "1"),))
    assert not are_exact((("a", b"1\n2"),), (("a", "1\n2"),))
