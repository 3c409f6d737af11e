"""What one fetch of local records costs in instructions, as `bench.produce_path` counts a produce.

    python -m bench.fetch_path [LOAD...] [--functions] [--bytecodes]

| load        | a fetch, answered at once, of                          |
|-------------|--------------------------------------------------------|
| uncommitted | a batch of 1 KB                                        |
| committed   | the same, for a consumer that reads committed records  |
| empty       | nothing: it asks for the end of the log                |

`--bytecodes` counts the bytecodes and the calls of Python functions instead, in a moment. It has no
goals and no page: run it before and after a change of the path.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.produce_path import (
    COUNTED,
    TOPIC,
    WARM_UP,
    DroppingTransport,
    connected,
    executed,
    instructions,
    repeat,
)
from bench.wire import batch_of, produce_request, request_bytes
from moldau.client import Admin, NewTopic
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.testing import EmbeddedBroker

LOADS: Final = ("uncommitted", "committed", "empty")
_VERSION: Final = 12
_RECORDS: Final = 10


def fetch_request(offset: int, *, is_committed: bool) -> bytes:
    """Return the frame of a fetch of one partition, without a session."""
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        isolation_level=int(is_committed),
        session_epoch=-1,
        topics=[FetchTopic(topic=TOPIC, partitions=[asked])],
        forgotten_topics_data=[],
    )
    return request_bytes(request, _VERSION)


@asynccontextmanager
async def prepared(name: str) -> AsyncIterator[Callable[[], None]]:
    """Yield a function that fetches once. It was called before."""
    records = batch_of([bytes(100)] * _RECORDS)
    frame = fetch_request(_RECORDS if name == "empty" else 0, is_committed=name == "committed")
    async with EmbeddedBroker() as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topic(NewTopic(TOPIC, 1))
        connection, peer = await connected(broker)
        transport = DroppingTransport()
        connection._sender.transport = transport  # type: ignore[assignment]

        def send(data: bytes) -> None:
            connection.get_buffer(-1)[: len(data)] = data
            connection.buffer_updated(len(data))

        def fetch() -> None:
            send(frame)

        send(produce_request(TOPIC, 0, records))
        repeat(fetch, WARM_UP)
        has_records = len(transport.last) > len(records)
        assert has_records is (name != "empty"), "the answer is another one"
        yield fetch
        peer.close()


async def run(name: str, switch: ctypes.CDLL) -> None:
    """Fetch `COUNTED` times."""
    async with prepared(name) as fetch:
        switch.begin()
        repeat(fetch, COUNTED)
        switch.end()


async def bytecodes(name: str) -> tuple[int, int]:
    """Return the bytecodes of a fetch, and its calls of Python functions."""
    async with prepared(name) as fetch:
        return executed(fetch)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fetch_path")
    parser.add_argument("loads", nargs="*")
    parser.add_argument("--functions", action="store_true")
    parser.add_argument("--bytecodes", action="store_true")
    parser.add_argument("--library", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.library:
        asyncio.run(run(given.loads[0], ctypes.CDLL(given.library)))
        return
    if given.bytecodes:
        print("| load | bytecodes | calls |\n|-|-:|-:|")
        for load in given.loads or LOADS:
            ran, called = asyncio.run(bytecodes(load))
            print(f"| {load} | {ran:,} | {called} |", flush=True)
        return
    print("| load | instructions a request |\n|-|-:|")
    with tempfile.TemporaryDirectory() as name:
        for load in given.loads or LOADS:
            counted = instructions(load, Path(name), given.functions, "bench.fetch_path")
            print(f"| {load} | {counted:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
