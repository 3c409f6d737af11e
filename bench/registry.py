"""The Schema Registry: requests for a second of its CPU, and its start with many schemas.

The registry is a process of its own beside a broker, and eight connections ask it at once. What
counts is its CPU and not the wall clock, because the broker and this program share the machine.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from typing import Final

from bench.harness import Case, Goal, Table
from bench.peer_brokers import MoldauBroker, cpu_seconds
from moldau.client import Admin, NewTopic, Producer
from moldau.registry.records import schema_entry

CONNECTIONS: Final = 8
LOOKUPS: Final = 4_000
REGISTRATIONS: Final = 400
KNOWN: Final = 50_000
ORDER: Final = (
    '{"type":"record","name":"Order%d","fields":[{"name":"id","type":"long"},'
    '{"name":"customer","type":["null","string"],"default":null},'
    '{"name":"total","type":"double"}]}'
)


@contextmanager
def registry(port: int, topic: str) -> Iterator[tuple[int, int]]:
    """Yield the process's id and the port of `moldau registry start`, when it answers."""
    command = [sys.executable, "-m", "moldau", "registry", "start", "-b", f"127.0.0.1:{port}"]
    words = ["--listen", "127.0.0.1:0", "--topic", topic, "--group", topic]
    process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if "is up at" not in line:
            raise RuntimeError(f"the registry did not start: {line}")
        yield process.pid, int(line.rpartition(":")[2])
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


class Served:
    """One broker, and one registry with a thousand schemas."""

    def __init__(self) -> None:
        with ExitStack() as stack:
            self.broker = stack.enter_context(MoldauBroker.started())
            self.pid, self.port = stack.enter_context(registry(self.broker.port, "_schemas"))
            self._numbers = count(1)
            self.ask(self._posts(1_000))
            self._full = False
            self._stack = stack.pop_all()
            atexit.register(self._stack.close)

    def lookups(self) -> float:
        """Return lookups by id for each second of the registry's CPU."""
        paths = [f"/schemas/ids/{each % 1_000 + 1}" for each in range(LOOKUPS)]
        return self._rate([_request("GET", path) for path in paths])

    def finds(self) -> float:
        """Return lookups by schema for each second of the registry's CPU."""
        asked = [each % 1_000 + 1 for each in range(LOOKUPS // 2)]
        return self._rate([_request("POST", f"/subjects/s{each}", ORDER % each) for each in asked])

    def registrations(self) -> float:
        """Return new schemas for each second of the registry's CPU."""
        return self._rate(self._posts(REGISTRATIONS))

    def start_s(self) -> float:
        """Return the seconds until a registry with many schemas answers."""
        if not self._full:
            asyncio.run(_fill(self.broker.port))
            self._full = True
        before = time.monotonic()
        with registry(self.broker.port, "_full"):
            return time.monotonic() - before

    def _posts(self, many: int) -> list[bytes]:
        numbers = [next(self._numbers) for _ in range(many)]
        return [_request("POST", f"/subjects/s{each}/versions", ORDER % each) for each in numbers]

    def _rate(self, requests: Sequence[bytes]) -> float:
        before = cpu_seconds(self.pid)
        self.ask(requests)
        return len(requests) / (cpu_seconds(self.pid) - before)

    def ask(self, requests: Sequence[bytes]) -> None:
        """Send all requests, each connection one after the other."""

        async def all_connections() -> None:
            parts = (requests[each::CONNECTIONS] for each in range(CONNECTIONS))
            await asyncio.gather(*(self._connection(part) for part in parts))

        asyncio.run(all_connections())

    async def _connection(self, requests: Sequence[bytes]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for request in requests:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.partition(b"\r\n")[0]:
                raise RuntimeError(head.decode())
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
        writer.close()


def _request(method: str, path: str, schema: str | None = None) -> bytes:
    body = b"" if schema is None else json.dumps({"schema": schema}).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: registry\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _fill(port: int) -> None:
    servers = f"127.0.0.1:{port}"
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic(NewTopic("_full", 1, 1, {"cleanup.policy": "compact"}))
    async with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        for each in range(1, KNOWN + 1):
            body = {"schema": ORDER % each}
            entry = schema_entry(f"s{each}", 1, each, body, is_deleted=False)
            await producer.send("_full", entry.value, key=entry.key)


@cache
def served() -> Served:
    """Return the one registry of this run."""
    return Served()


def tables() -> Sequence[Table]:
    """Return a table of requests and one of the start."""
    names = ("lookups by id", "lookups by schema", "registrations")
    return [
        Table(
            f"Schema Registry, {CONNECTIONS} connections",
            "requests for a second of its CPU",
            [
                Case(names[0], lambda: served().lookups()),
                Case(names[1], lambda: served().finds()),
                Case(names[2], lambda: served().registrations()),
            ],
            [Goal(names[0], at_least=2_000), Goal(names[2], at_least=200)],
        ),
        Table(
            f"Start of a Schema Registry with {KNOWN} schemas",
            "s until it answers",
            [Case("moldau", lambda: served().start_s())],
            [Goal("moldau", at_most=5.0)],
            higher_is_better=False,
        ),
    ]
