"""A real process that may open few files: it refuses what it has none for, and lives on."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from moldau.broker.log.open_files import kept_back
from moldau.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports
from moldau.runtime.real import run
from tests.broker.main.processes import BrokerProcess, broker_process
from tests.broker.server.wire import Wire, wired
from tests.runtime.arena import HOST

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not hasattr(resource, "prlimit"), reason="no way to limit another process on this system"
    ),
]

LIMIT = 240
Scenario = Callable[[Runtime, Wire], Awaitable[None]]
OFTEN = (
    *("--set", "log.initial.task.delay.ms=100"),
    *("--set", "log.flush.offset.checkpoint.interval.ms=100"),
    *("--set", "replica.high.watermark.checkpoint.interval.ms=100"),
)


@contextmanager
def short_of_files(home: Path) -> Iterator[BrokerProcess]:
    """Its process may not open more from now on."""
    with broker_process(home, "--data", str(home / "data"), *OFTEN) as broker:
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        yield broker


def play(broker: BrokerProcess, scenario: Scenario) -> None:
    async def main(runtime: Runtime) -> None:
        async with asyncio.timeout(90):
            async with wired(runtime, broker.host, broker.port) as wire:
                await scenario(runtime, wire)

    run(main)


async def created(wire: Wire, name: str, partitions: int) -> tuple[int, str]:
    wanted = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000, validate_only=False)
    answer = await wire.ask(request, CreateTopicsResponse)
    return answer.topics[0].error_code, answer.topics[0].error_message or ""


def test_a_node_has_more_partitions_than_files(tmp_path: Path) -> None:
    """Those that are not used hold none. It writes, reads and starts again with all of them."""
    count = 2 * LIMIT

    async def fill(runtime: Runtime, wire: Wire) -> None:
        assert (await created(wire, "large", count))[0] == 0
        for _ in range(2):
            for each in range(count):
                assert (await wire.produce("large", [b"value"], each)).error_code == 0

    async def read(runtime: Runtime, wire: Wire) -> None:
        for each in range(0, count, 7):
            assert len(await wire.fetch_all("large", each)) == 2
            assert (await wire.produce("large", [b"value"], each)).error_code == 0

    for scenario in (fill, read):
        with short_of_files(tmp_path) as broker:
            play(broker, scenario)
            code, log = broker.stop()
            assert code == 0, log
            assert "out of service" not in log


def test_a_flood_of_connections_is_turned_away_and_leaves_logs_what_they_need(
    tmp_path: Path,
) -> None:
    async def flood(runtime: Runtime, wire: Wire) -> None:
        assert (await created(wire, "orders", 10))[0] == 0
        with ExitStack() as at_the_end:
            opened = await flooded(at_the_end, broker.host, broker.port)
            await are_gone(opened, len(opened) - (LIMIT - kept_back(LIMIT)) + 1)
            # Logs that were never written need more files now; checkpoints are written meanwhile.
            for number in range(30):
                assert (await wire.produce("orders", [b"value"], number % 10)).error_code == 0
        await served_again(runtime)

    async def served_again(runtime: Runtime) -> None:
        while True:
            async with wired(runtime, broker.host, broker.port) as other:
                with suppress(OSError, EOFError):  # it is still busy with who has left
                    assert (await other.metadata("orders")).topics[0].error_code == 0
                    return

    with short_of_files(tmp_path) as broker:
        play(broker, flood)
        code, log = broker.stop()
        assert code == 0, log
        assert "turns a connection away" in log
        assert "out of service" not in log


def test_a_flood_of_clients_leaves_other_brokers_their_connections(tmp_path: Path) -> None:
    """Clients take all places that they can get at their listener; another broker connects."""
    clients, brokers, controllers = free_ports(3)
    given = tmp_path / "node.properties"
    given.write_text(
        f"log.dirs={tmp_path / 'data'}\n"
        "node.id=1\n"
        "process.roles=broker,controller\n"
        f"listeners=OUT://127.0.0.1:{clients},IN://127.0.0.1:{brokers},"
        f"CONTROLLER://127.0.0.1:{controllers}\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:{controllers}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=OUT:PLAINTEXT,IN:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "inter.broker.listener.name=IN\n"
    )

    async def flood(runtime: Runtime, wire: Wire) -> None:
        assert (await created(wire, "orders", 1))[0] == 0
        with ExitStack() as at_the_end:
            opened = await flooded(at_the_end, broker.host, clients)
            await are_gone(opened, 1)
            for _ in range(3):
                async with wired(runtime, broker.host, brokers) as other:
                    assert (await other.produce("orders", [b"value"], 0)).error_code == 0

    words = ("--config", str(given), "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qg")
    with broker_process(tmp_path, *words) as broker:
        broker.host, broker.port = HOST, clients  # of the two that it names
        resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        play(broker, flood)
        assert broker.stop()[0] == 0


async def flooded(at_the_end: ExitStack, host: str, port: int) -> list[socket.socket]:
    """Open more connections than the process has files."""
    loop = asyncio.get_running_loop()
    opened = []
    for _ in range(2 * LIMIT):
        each = at_the_end.enter_context(socket.socket())
        each.setblocking(False)
        await loop.sock_connect(each, (host, port))
        opened.append(each)
    return opened


async def are_gone(opened: list[socket.socket], at_least: int) -> None:
    """Wait until the other side has closed so many of them; it sends nothing."""
    waiting = {asyncio.create_task(is_gone(each)) for each in opened}
    left = len(opened) - at_least
    try:
        async with asyncio.timeout(60):
            while len(waiting) > left:
                _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def is_gone(opened: socket.socket) -> None:
    """Return when the other side has closed it."""
    with suppress(OSError):
        assert await asyncio.get_running_loop().sock_recv(opened, 1) == b""
