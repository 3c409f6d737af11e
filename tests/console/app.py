"""A Streams app on the test's own event loop: it counts words, in a table and by the minute."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest

from moldau.client import Admin, NewTopic, Producer
from moldau.runtime import Runtime
from moldau.streams import Streams, tumbling
from moldau.streams.running import WorkerSlot, checked, run_plan
from moldau.streams.worker.reports import Reports

pytestmark = pytest.mark.real  # it waits for a real app

APP: Final = "word-counts"
KEYS: Final = 60
"""More than a page has."""
AT_MS: Final = 1_700_000_000_000
_PATIENCE_S: Final = 120.0


def topology() -> Streams:
    """The app; the count of a word is an integer with more digits than a browser's numbers have."""
    app = Streams(APP)
    words = app.stream("words", str).group_by(lambda word: word)
    words.aggregate(
        lambda: 10**19, lambda total, word: total + 1, name="counts"
    ).changes().map_values(str).to("counted")
    words.window(tumbling("1m")).count(name="minutes", retain="1h")
    return app


class Heard(Reports):
    """Takes down where the app listens."""

    def __init__(self) -> None:
        super().__init__()
        self.url: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def listening(self, url: str, *, is_open: bool) -> None:
        self.url.set_result(url)


@asynccontextmanager
async def app(runtime: Runtime, servers: str, folder: Path) -> AsyncIterator[str]:
    """Yield the address of the app's queries when it has counted KEYS words once each."""
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topics(NewTopic(name, 2) for name in ("words", "counted"))
    async with Producer(bootstrap_servers=servers) as producer:
        for number in range(KEYS):
            await producer.send("words", f"w{number:02}".encode(), timestamp_ms=AT_MS)
        await producer.flush()
    heard = Heard()
    given = {
        "bootstrap.servers": servers,
        "state.dir": str(folder),
        "queries.listen": "127.0.0.1:0",
        "commit.interval.ms": "50",
    }
    running = run_plan(topology().plan(), checked(given), runtime, WorkerSlot(reports=heard))
    task = runtime.spawn(running, name="app", reported=False)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            url = await heard.url
            await _until_counted(url)
        yield url
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _until_counted(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        while True:
            answer = await client.get("/stores/counts?limit=1000")
            if answer.status_code == 200 and len(answer.json()["rows"]) == KEYS:
                return
            await asyncio.sleep(0.05)
