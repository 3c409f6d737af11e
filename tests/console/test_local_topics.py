"""A console in the broker's process reads the topics of the metadata image, and sees no more than
over the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from moldau.broker.api import topic_view
from moldau.client import Admin, NewTopic
from moldau.client.admin.survey import Survey
from moldau.console.server import connection_of, serving
from moldau.link.metadata import Topic
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.shown import use

pytestmark = pytest.mark.real


def local(broker: EmbeddedBroker) -> list[list[Topic]]:
    found = broker.topics()
    assert found is not None
    return list(found)


def test_the_image_has_what_the_wire_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both in the order of names, internal topics too; a topic that goes meanwhile is left out."""
    monkeypatch.setattr(topic_view, "SLICE_PARTITIONS", 3)

    async def run() -> None:
        async with EmbeddedBroker() as broker:
            assert local(broker) == []
            await use(broker.bootstrap_servers)
            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                await admin.create_topics([NewTopic(name, 2) for name in ("z", "a", "m")])
                wire = [each async for part in Survey(admin).topics() for each in part.topics]
                names = ["__consumer_offsets", "a", "m", "orders", "z"]
                assert [each.name for each in wire] == names
                slices = local(broker)
                assert [each for part in slices for each in part] == wire
                assert [len(part) for part in slices] == [1, 2, 2]
                reading = broker.topics()
                assert reading is not None
                assert len(next(reading)) == 1
                await admin.delete_topics(["m"])
                assert [each.name for part in reading for each in part] == ["a", "orders", "z"]

    asyncio.run(run())


def test_where_rules_decide_the_console_asks_by_its_login() -> None:
    rules = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}

    async def run() -> None:
        async with EmbeddedBroker(settings=rules) as broker:
            assert broker.topics() is None
            assert "orders" in await page(broker)

    asyncio.run(run())


def test_the_pages_list_the_topics_without_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    whole = Survey.topics

    async def noted(self: Survey, names: Any = None) -> Any:
        asked.append(names)
        async for part in whole(self, names):
            yield part

    monkeypatch.setattr(Survey, "topics", noted)

    async def run() -> None:
        async with EmbeddedBroker() as broker:
            assert "orders" in await page(broker)
            assert None not in asked

    asyncio.run(run())


async def page(broker: EmbeddedBroker) -> str:
    """The page of topics of a console in this process, which has a topic `orders`."""
    await use(broker.bootstrap_servers)
    async with RealRuntime("console") as runtime:
        settings = {"bootstrap.servers": broker.bootstrap_servers}
        connection = connection_of(runtime, settings, broker.topics)
        async with (
            serving(runtime, connection, ("127.0.0.1", 0)) as address,
            httpx2.AsyncClient(base_url=address, timeout=60, trust_env=False) as client,
        ):
            return (await client.get("/topics")).text
