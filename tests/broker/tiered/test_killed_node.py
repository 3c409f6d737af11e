"""A broker that is killed between the steps of its remote work: what was acknowledged is in one
tier at least, and in the end nothing is in the store that no segment has."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from moldau.broker.server import Broker
from moldau.broker.tiered.chunk_cache import ChunkCache
from moldau.broker.tiered.remote_reader import RemoteReader
from moldau.errors.codes import ErrorCode
from moldau.records import iter_records
from moldau.runtime import Runtime
from moldau.runtime.node_processes import free_ports
from tests.broker.server.houses import House
from tests.broker.server.wire import wired
from tests.broker.tiered.stores import folder_store, on_runtime
from tests.broker.tiered.tiered_house import is_cut, objects, remote_of, until
from tests.broker.tiered.tiered_node import HOST, UP
from tests.broker.tiered.tiered_settings import SETTINGS, TOPIC

pytestmark = [pytest.mark.real, pytest.mark.deep]

KILLS: Final = 5
COUNT: Final = 40


@contextmanager
def node(directory: Path, port: int, store: Path) -> Iterator[subprocess.Popen[str]]:
    """A node in a process of its own, which is killed in the end."""
    named = {**SETTINGS, "remote_storage": f"file://{store}"}
    given = [f"{name.replace('_', '.')}={value}" for name, value in named.items()]
    command = [sys.executable, "-m", "tests.broker.tiered.tiered_node", str(directory), str(port)]
    with subprocess.Popen(  # noqa: S603
        [*command, *given], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == UP
            yield process
        finally:
            process.kill()


def test_nothing_is_lost_by_kills(tmp_path: Path) -> None:
    directory, store = tmp_path / "node", tmp_path / "store"
    directory.mkdir()
    store.mkdir()
    (port,) = free_ports(1)
    acknowledged: dict[int, bytes] = {}

    async def live(runtime: Runtime, number: int) -> None:
        """One life of the node: it ends when so many more files are in the store."""
        before = files_in(store)
        with node(directory, port, store):
            async with wired(runtime, HOST, port) as wire:
                if not number:
                    assert await wire.create("t", 1, **TOPIC) == ErrorCode.NONE
                for _ in range(COUNT):
                    value = f"{len(acknowledged):08}".encode() * 25
                    answer = await wire.produce("t", [value])
                    assert answer.error_code == ErrorCode.NONE
                    acknowledged[answer.base_offset] = value
            await until(lambda: files_in(store) > before + number)

    async def main(runtime: Runtime) -> None:
        for number in range(KILLS):
            await live(runtime, number)
        home = House(runtime, str(directory), HOST)
        home.port = port
        broker = await home.start(**SETTINGS, remote_storage=f"file://{store}")
        try:
            async with home.wire_of(broker) as wire:
                topic_id = await wire.topic_id("t")
            await until(lambda: is_cut(broker, "t"))
            await until(has_no_orphans(broker, topic_id, store))
            found = await records_of(runtime, broker, topic_id, store, tmp_path)
            assert {at: found.get(at) for at in acknowledged} == acknowledged
            assert broker.node.replicas.partition("t", 0).log_start_offset == 0
        finally:
            await broker.aclose()

    on_runtime(main)


def files_in(store: Path) -> int:
    return sum(1 for each in store.rglob("*") if each.is_file())


def has_no_orphans(broker: Broker, topic_id: bytes, store: Path) -> Callable[[], bool]:
    return lambda: len(objects(store)) == 2 * len(remote_of(broker, topic_id))


async def records_of(
    runtime: Runtime, broker: Broker, topic_id: bytes, store: Path, place: Path
) -> dict[int, bytes]:
    """The values by offset, of the remote segments as far as the log goes, and of the local log."""
    log = broker.node.replicas.partition("t", 0).log
    cache = ChunkCache(runtime, str(place / "cache"))
    await cache.open()
    reader = RemoteReader(runtime, folder_store(runtime, store), cache)
    values: dict[int, bytes] = {}
    remote, local = remote_of(broker, topic_id), log.local_log_start_offset
    for segment, start, end in remote.ranges(log.leader_epochs, 0, local):
        at = start
        while at < end:
            batches = await reader.read(segment, at, 1 << 20, end)
            values.update((each.offset, each.value or b"") for each in iter_records(batches.data))
            at = batches.next_offset
    await cache.close()
    for batch in log.batches(local):
        values.update((each.offset, each.value or b"") for each in batch.records())
    return values
