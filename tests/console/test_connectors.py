"""Connectors on the pages: state and tasks, secrets that stay hidden, pause, resume, restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx2
import pytest

from moldau.config.hiding import HIDDEN
from moldau.console.access.visitor import Access
from moldau.console.pages.connectors import Connector
from moldau.operations.connectors import without_secret
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.shown import browser
from tests.console.worker import NAME, QUOTED, worker

pytestmark = pytest.mark.real

PATIENCE_S = 120.0
PAGE = f"/connectors/{QUOTED}"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("connection.password", "hunter2", HIDDEN),
        ("producer.override.sasl.jaas.config", "Plain hunter2;", HIDDEN),
        ("connection.url", "jdbc:mysql://db/s?user=u&password=p@1", f"jdbc:mysql://db/s?user=u&password={HIDDEN}"),
        ("store", "https://me:p@ss@db/shop", f"https://{HIDDEN}@db/shop"),
        ("connection.url", "jdbc:postgresql://me:hunter2@db/shop", f"jdbc:postgresql://{HIDDEN}@db/shop"),
        ("topics", "orders", "orders"),
    ],
)  # fmt: skip
def test_a_setting_is_shown_without_secrets(key: str, value: str, text: str) -> None:
    assert without_secret(key, value) == text


def test_a_connector_with_a_failed_task() -> None:
    status = {
        "connector": {"state": "RUNNING", "worker_id": "w:1"},
        "tasks": [
            {"id": 1, "state": "FAILED", "worker_id": "w:1", "trace": "no such file"},
            {"id": 0, "state": "RUNNING", "worker_id": "w:1"},
        ],
    }
    found = Connector.of("c", {"config": {"b": "2", "a": "1"}, "type": "sink"}, status)
    assert (found.kind, found.running, found.failed) == ("sink", 1, 1)
    assert [(each.number, each.trace) for each in found.tasks] == [(0, ""), (1, "no such file")]
    assert list(found.settings) == ["a", "b"]


async def until(client: httpx2.AsyncClient, text: str) -> str:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            page = await client.get(PAGE)
            if text in page.text:
                return page.text
            await asyncio.sleep(0.05)


def test_a_connector_is_paused_resumed_and_restarted(tmp_path: Path) -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker, RealRuntime("worker") as runtime:
            servers = broker.bootstrap_servers
            async with worker(runtime, broker, tmp_path) as url:
                async with browser(servers, Access(), connect=url) as client:
                    page = await until(client, ">running</span> source, on ")
                    assert str(tmp_path) in page
                    assert 'method="post"' not in page
                    assert (await client.post(PAGE, data={"does": "pause"})).status_code == 403
                async with browser(servers, connect=url) as client:
                    listed = (await client.get("/connectors")).text
                    assert NAME in listed
                    assert "FileStreamSource" in listed
                    assert "No connector has this" in (await client.get("/connectors?q=no")).text
                    await client.post(PAGE, data={"does": "pause"})
                    await until(client, ">paused</span> source")
                    await client.post(PAGE, data={"does": "resume"})
                    await until(client, ">running</span> source")
                    for form in ({"does": "restart"}, {"does": "restart", "task": "0"}):
                        assert (await client.post(PAGE, data=form)).status_code == 200
                    await until(client, ">running</span> source")
                    for form in ({"does": "stop"}, {"does": "pause", "task": "0"}):
                        assert (await client.post(PAGE, data=form)).status_code == 400
                    gone = await client.get("/connectors/none")
                    assert (gone.status_code, "It is not there" in gone.text) == (404, True)
            async with browser(servers, connect=url) as client:
                down = await client.get("/connectors")
                assert (down.status_code, "no Connect worker answers" in down.text) == (502, True)
                assert "Connect does not answer" in down.text
            async with browser(servers) as client:
                assert "--connect URL" in (await client.get("/connectors")).text

    asyncio.run(run())
