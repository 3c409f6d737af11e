"""A pipeline's status over HTTP, of parts that a test has made up: a sink of it has failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from moldau.pipeline.data_directory import PartState
from moldau.pipeline.publishing import StatusService
from moldau.pipeline.status import GroupStatus, Snapshot
from moldau.runtime import Runtime
from moldau.runtime.http_door import NO_BODY, DoorRules
from moldau.runtime.http_server import HttpServer
from tests.pipeline.files import pipeline

ERROR: Final = "the disk is full: make room"


class Looks:
    """Snapshots of which each has committed a hundred records more."""

    def __init__(self) -> None:
        self.count = 0

    def read(self) -> Snapshot:
        """Return the next one, two seconds after the last."""
        self.count += 1
        committed = 100 * self.count
        parts = {
            "broker": PartState("broker", 1, "RUNNING"),
            "worker": PartState("worker", 2, "RUNNING"),
            "app count-words": PartState("app", 3, "RUNNING", 2),
        }
        failed = {"state": "FAILED", "error": ERROR}
        connectors = {
            "read-lines": {"state": "RUNNING", "tasks": [{"state": "RUNNING", "rate": 7.0}]},
            "write-counts": {"state": "RUNNING", "tasks": [failed]},
        }
        groups = {
            "words": GroupStatus("Stable", 12, committed),
            "connect-write-counts": GroupStatus("Stable", 3_000, committed),
        }
        return Snapshot(2.0 * self.count, parts, connectors, groups)


@asynccontextmanager
async def status(runtime: Runtime) -> AsyncIterator[str]:
    """Yield the address of the status."""
    server = HttpServer(runtime, "the status", "choose another address")
    host, port = server.bind("127.0.0.1", 0)
    await server.start(StatusService(pipeline(), Looks(), runtime), DoorRules(NO_BODY))
    try:
        yield f"http://{host}:{port}"
    finally:
        await server.aclose()
