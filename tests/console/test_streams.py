"""Streams apps on the pages: their picture with live numbers, tasks, members, and stores."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from moldau.console.access.policy_file import read_policy
from moldau.console.access.roles import Role
from moldau.console.access.visitor import Access
from moldau.console.apis.services import LinkedServices
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.app import APP, AT_MS, KEYS, app
from tests.console.cells import Cells
from tests.console.shown import browser

pytestmark = pytest.mark.real

STORES = "/streams/words/stores"
BIG = str(10**19 + 1)
BAD = {
    "/streams/none": (404, "there is no app none here: gone, words"),
    "/streams/words/stores/none": (404, "the app has no store none"),
    f"{STORES}/minutes?since=lately": (400, "since: &#39;lately&#39; is no time"),
    "/streams/gone": (502, "no Streams app answers at http://127.0.0.1:1"),
}


def keys(page: httpx2.Response) -> list[str]:
    return [row[0].strip() for row in Cells(page.text).rows if len(row) in (3, 5)]


async def looks_at(client: httpx2.AsyncClient) -> None:
    listed = await client.get("/streams")
    assert Cells(listed.text).row("words")[1:3] == [APP, "4 running"]
    assert "no Streams app answers at http://127.0.0.1:1" in listed.text
    page = (await client.get("/streams/words")).text
    rows = Cells(page)
    for title in ("words, topic, 2 partitions", "counted, topic", "counts-repartition, topic"):
        assert title in page, title
    assert rows.row("counts") == [
        "counts",
        "key-value",
        "str",
        "int",
        str(KEYS),
        rows.row("counts")[5],
    ]
    assert rows.row("1_0")[2:5] == ["running", "-", "0"], "there is no rate at the first look"
    live = await client.get("/streams/words/live")
    assert "<html" not in live.text


async def looks_into_stores(client: httpx2.AsyncClient) -> None:
    first = await client.get(f"{STORES}/counts")
    assert keys(first) == [f"w{number:02}" for number in range(50)]
    assert BIG in first.text, "no digit is lost"
    assert "?first=w50&amp;reverse=0" in first.text
    rest = await client.get(f"{STORES}/counts?first=w50&reverse=0")
    assert keys(rest) == [f"w{number}" for number in range(50, KEYS)]
    assert 'rel="next"' not in rest.text
    last = await client.get(f"{STORES}/counts?first=w03&last=w05&reverse=1")
    assert keys(last) == ["w05", "w04", "w03"]
    assert keys(await client.get(f"{STORES}/counts?key=w07")) == ["w07"]
    assert "The store has no such key" in (await client.get(f"{STORES}/counts?key=none")).text
    windows = await client.get(f"{STORES}/minutes")
    assert len(keys(windows)) == 50
    assert "?reverse=1&amp;rows=100" in windows.text
    assert len(keys(await client.get(f"{STORES}/minutes?rows=100"))) == KEYS
    one = Cells((await client.get(f"{STORES}/minutes?key=w07&since=@{AT_MS - 60_000}")).text)
    assert one.row("w07")[1:4] == ["2023-11-14 22:13:00.000", "2023-11-14 22:14:00.000", "1"]
    later = await client.get(f"{STORES}/minutes?since=@{AT_MS + 60_000}")
    assert "No row is here" in later.text


MASKED = Access(
    policy=replace(
        read_policy("masks: [{topics: '*-changelog', key: $}]", "masks.yaml").policy,
        fallback=Role.VIEWER,
    )
)


async def looks_up_no_masked_key(client: httpx2.AsyncClient) -> None:
    """The rows are there with masks; a key that a visitor guesses is not confirmed."""
    assert set(keys(await client.get(f"{STORES}/counts"))) == {"***"}
    for query in ("key=w07", "key=none", "first=w07", "last=w07", "first=w07&last=w08"):
        page = await client.get(f"{STORES}/counts?{query}")
        assert (page.status_code, "w08" in page.text) == (403, False), query
        assert "does not see the whole keys" in page.text


def test_an_app_and_its_stores_are_looked_at(tmp_path: Path) -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker, RealRuntime("app") as runtime:
            servers = broker.bootstrap_servers
            async with app(runtime, servers, tmp_path) as url:
                services = LinkedServices.of(runtime, f"words={url} gone=http://127.0.0.1:1", "")
                async with browser(servers, services=services) as client:
                    await looks_at(client)
                    await looks_into_stores(client)
                    for path, (status, text) in BAD.items():
                        page = await client.get(path)
                        assert (page.status_code, text in page.text) == (status, True), path
                again = LinkedServices.of(runtime, f"words={url}", "")
                async with browser(servers, MASKED, services=again) as client:
                    await looks_up_no_masked_key(client)
                wrong = LinkedServices.of(runtime, f"wrong={url}/stores", "")
                async with browser(servers, services=wrong) as client:
                    assert "there is no" in (await client.get("/streams/wrong")).text
            async with browser(servers) as client:
                assert "--streams NAME=URL" in (await client.get("/streams")).text

    asyncio.run(run())
