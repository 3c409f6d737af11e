"""Messages that were written with a schema: shown as JSON, found by their text, or as bytes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx2
import pytest

from moldau.client import Producer
from moldau.client.serdes.registry.client import SchemaRegistry
from moldau.console.access.policy_file import read_policy
from moldau.console.access.roles import Role
from moldau.console.access.visitor import Access
from moldau.console.server import served
from moldau.runtime.real import RealRuntime
from moldau.testing import SyncEmbeddedBroker
from moldau.values.wire import frame
from tests.console.schemas import BIG, SCHEMAS
from tests.console.shown import finished
from tests.registry.served import process

pytestmark = pytest.mark.real


async def _produced(servers: str, url: str) -> None:
    async with SchemaRegistry(url) as registry:
        ids = {
            kind: await registry.register(f"{kind}-value", schema)
            for kind, schema in SCHEMAS.items()
        }
    for kind in ("avro", "json-schema"):
        settings = {
            "bootstrap.servers": servers, "schema.registry.url": url, "value.serializer": kind,
            "auto.register.schemas": "false", "use.latest.version": "true",
        }  # fmt: skip
        async with Producer(settings) as producer:
            await producer.send_and_wait(kind, {"name": "Ada", "n": BIG})
    async with Producer(bootstrap_servers=servers) as producer:
        message = b"\n\x03Ada\x10\x81\x80\x80\x80\x80\x80\x80\x10"
        await producer.send_and_wait("protobuf", frame(ids["protobuf"]) + b"\0" + message)
        await producer.send_and_wait("other", b"\0\0\0\x27\x0fpayload")
        await producer.send_and_wait("other", b"plain text")


MASKED = Access(
    policy=replace(
        read_policy("masks: [{topics: '*', value: name}]", "masks.yaml").policy,
        fallback=Role.VIEWER,
    )
)
"""For visitors that do not see the field `name`."""


async def _page(servers: str, url: str, path: str, access: Access | None = None) -> str:
    settings = {"bootstrap.servers": servers, "schema.registry.url": url}
    async with (
        RealRuntime("console") as runtime,
        served(runtime, settings, ("127.0.0.1", 0), None, access) as address,
        httpx2.AsyncClient(base_url=address, timeout=120) as client,
    ):
        page = await finished(client, await client.get(path))
        assert page.status_code == 200, page.text
        return page.text


def test_records_of_every_format_are_decoded(moldau_broker: SyncEmbeddedBroker) -> None:
    servers = moldau_broker.bootstrap_servers

    async def run(url: str) -> None:
        await _produced(servers, url)
        for kind in SCHEMAS:
            text = await _page(servers, url, f"/topics/{kind}/messages?text=Ada")
            assert "&#34;name&#34;: &#34;Ada&#34;" in text, kind
            assert str(BIG) in text, kind
            assert "not decoded" not in text, kind
            hidden = await _page(servers, url, f"/topics/{kind}/messages", MASKED)
            assert "&#34;name&#34;: &#34;***&#34;" in hidden, kind
            assert str(BIG) in hidden, kind
        hidden = await _page(servers, url, "/topics/other/messages", MASKED)
        assert "payload" not in hidden, "what cannot be decoded is hidden whole"
        assert "plain text" not in hidden
        other = await _page(servers, url, "/topics/other/messages")
        assert "not decoded" in other
        assert "9999" in other, "the id that the registry does not have"
        assert "payload" in other
        assert "plain text" in other

    with process(servers) as (_, url):
        asyncio.run(run(url))
    down = asyncio.run(_page(servers, url, "/topics/avro/messages"))
    assert "not decoded" in down
