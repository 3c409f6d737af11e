"""A Connect worker on the test's own event loop, with a connector that reads a file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from moldau.connect.server import ConnectWorker, WorkerLocation
from moldau.logging import Loggers
from moldau.runtime import Runtime
from moldau.testing import EmbeddedBroker

NAME = "lines/of a file"
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
QUOTED = "lines%2Fof%20a%20file"


@asynccontextmanager
async def worker(runtime: Runtime, broker: EmbeddedBroker, folder: Path) -> AsyncIterator[str]:
    """Yield the worker's address."""
    (folder / "lines.txt").write_text("one\ntwo\n")
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "task.isolation": "thread",
        "offset.flush.interval.ms": "1000",
        "connect.file.directories": str(folder.parent),  # of all tests
    }
    location = WorkerLocation(("127.0.0.1", 0))
    running = ConnectWorker(runtime, settings, location, Loggers(runtime.clock, lambda line: None))
    try:
        await running.start()
        url = f"http://{running.herder.worker_id}"
        config = {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(folder / "lines.txt"),
            "topic": "lines",
        }
        async with httpx2.AsyncClient(base_url=url, timeout=120) as client:
            made = await client.put(f"/connectors/{QUOTED}/config", json=config)
            assert made.status_code == 201, made.text
        yield url
    finally:
        await running.aclose()
