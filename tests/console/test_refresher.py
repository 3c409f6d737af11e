"""The rounds that read the lists behind the pages, of a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moldau.client import Admin, NewTopic
from moldau.client.admin import survey
from moldau.console import refresher
from moldau.console.connection import Connection
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.shown import browser, use

pytestmark = pytest.mark.real

PATIENCE_S = 120.0


@asynccontextmanager
async def connected(broker: EmbeddedBroker) -> AsyncIterator[tuple[Connection, Admin]]:
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    async with RealRuntime("console") as runtime:
        connection = Connection(settings, runtime)
        try:
            yield connection, await connection.admin()
        finally:
            await connection.aclose()


async def until(condition: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.01)


def test_a_first_page_comes_before_the_end_of_the_list_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rounds stop after the first slice until the test lets them go on."""
    go_on = asyncio.Event()
    whole = survey.Survey.topics

    async def held(self: survey.Survey, names: Any = None) -> Any:
        async for part in whole(self, names):
            yield part
            await go_on.wait()

    async def run() -> None:
        monkeypatch.setattr(survey, "PARTITIONS", 60)
        monkeypatch.setattr(refresher, "FIRST", 60)
        monkeypatch.setattr(survey.Survey, "topics", held)
        async with EmbeddedBroker() as broker:
            async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                await admin.create_topics([NewTopic(f"t{n:03}", 1) for n in range(100)])
            async with browser(broker.bootstrap_servers) as client:
                page = await client.get("/topics?internal=1")
                assert "still being read: 60 topics so far" in page.text
                assert "1 to 50 of 60" in page.text
                made = await client.post("/topics", data={"name": "t0505"})
                assert made.status_code == 200
                go_on.set()

                async def is_whole() -> bool:
                    return "of 101" in (await client.get("/topics")).text

                await until(is_whole)
                assert "t0505" in (await client.get("/topics?page=2")).text
                assert "As of " in (await client.get("/topics")).text

    asyncio.run(run())


def test_what_others_change_is_seen_in_a_later_round(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(refresher, "EVERY_S", 0.01)
        async with EmbeddedBroker() as broker, connected(broker) as (connection, admin):
            assert (await connection.lists.topics()).topics == []
            await admin.create_topic(NewTopic("made", 1))
            await admin.alter_group_offsets("reads", {("made", 0): 0})

            async def is_seen() -> bool:
                listed = await connection.lists.groups()
                names = [each.name for each in listed.topics if not each.is_internal]
                return names == ["made"] and listed.lags == {"reads": 0}

            await until(is_seen)
            await admin.delete_group("reads")

            async def is_gone() -> bool:
                listed = await connection.lists.groups()
                return listed.lags == {} and listed.groups == []

            await until(is_gone)

    asyncio.run(run())


def test_the_lists_are_forgotten_when_nobody_looks_and_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        monkeypatch.setattr(refresher, "EVERY_S", 0.0)
        monkeypatch.setattr(refresher, "IDLE_S", 0.0)
        async with EmbeddedBroker() as broker, connected(broker) as (connection, admin):
            lists = connection.lists
            await lists.topics()
            task = lists._task
            assert task is not None
            await asyncio.wait([task], timeout=PATIENCE_S)
            assert lists._listed is None
            await admin.create_topic(NewTopic("made", 1))
            assert [each.name for each in (await lists.topics()).topics] == ["made"]

    asyncio.run(run())


def test_groups_that_may_not_be_listed_leave_the_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(self: Admin) -> None:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    async def run() -> None:
        monkeypatch.setattr(Admin, "list_groups", refused)
        async with EmbeddedBroker() as broker, browser(broker.bootstrap_servers) as client:
            assert (await client.get("/topics")).status_code == 200
            page = await client.get("/groups")
            assert (page.status_code, "CLUSTER_AUTHORIZATION_FAILED" in page.text) == (502, True)

    asyncio.run(run())


def test_the_lag_of_a_group_is_drawn_over_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(refresher, "EVERY_S", 0.01)
        monkeypatch.setattr(refresher, "LOOK_MS", 1)
        async with EmbeddedBroker() as broker, browser(broker.bootstrap_servers) as client:
            await use(broker.bootstrap_servers)

            async def is_drawn() -> bool:
                part = (await client.get("/charts/group/billing")).text
                assert "<html" not in part
                return "<polyline" in part and "<b>3.0</b></span>; at most 3" in part

            await until(is_drawn)
            assert "<polyline" in (await client.get("/groups/billing")).text

    asyncio.run(run())
