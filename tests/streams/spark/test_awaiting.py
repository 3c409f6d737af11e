"""Async functions and `retry(...)` on the engine `spark`: a task waits in its batch, in order.

The stages run on a real broker, without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import pytest

from moldau.streams import Streams, retry
from moldau.streams.spark import stage
from moldau.streams.spark.limits import refusals
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps
from tests.streams.spark.batches import Batches

LINES = 40
AGAIN = retry(1, backoff="5ms")
_met: set[object] = set()
"""In an executor, where this module is by value: what has failed once, and the event loops."""


def fails_first(what: str, value: object) -> None:
    """Every third of the values fails, once."""
    if (what, value) not in _met:
        _met.add((what, value))
        if crc32(repr(value).encode()) % 3 == 0:
            raise ConnectionError(f"{value} is not there yet")


async def looked_up(line: str) -> str:
    _met.add(asyncio.get_running_loop())
    for _ in range(crc32(line.encode()) % 5):  # they end in another order
        await asyncio.sleep(0)
    fails_first("async", line)
    return f"{line} {sum(isinstance(each, asyncio.AbstractEventLoop) for each in _met)}"


def checked(line: str) -> str:
    fails_first("plain", line)
    return line


def known(line: Any) -> Any:
    fails_first("behind", line)
    return line


def counted(count: int) -> str:
    fails_first("count", count)
    return str(count)


def waiting(name: str) -> Streams:
    """An app in which calls, records, what comes behind calls, and the rows of a commit fail the
    first time."""
    app = Streams(name)
    lines = app.stream(f"{name}-lines", str, key=str)
    found = lines.map_values(checked, on_error=AGAIN).map_values(looked_up, on_error=AGAIN)
    found.map_values(known, on_error=AGAIN).to(f"{name}-joined")
    counts = found.group_by_key().count(name="counts").changes()
    counts.map_values(counted, on_error=AGAIN).to(f"{name}-out")
    return app


@pytest.fixture(autouse=True)
def programs() -> Iterator[None]:
    """An executor keeps them, with their event loops."""
    yield
    stage._LOADED.clear()


def test_what_fails_once_and_async_functions_give_the_records_in_their_order(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, name = moldau_broker.bootstrap_servers, moldau_topic
    app = waiting(name)
    assert refusals(app.plan()) == {}
    apps.make_topics(servers, app)
    apps.write(servers, name, 0, LINES, has_cities=False)

    with closing(Batches(app.plan(), servers, tmp_path, Random(1))) as batches:
        batches.settle()

    outs = apps.outs_of(servers, app)
    for key in {each.key for each in outs}:
        mine = [each for each in outs if each.key == key]
        at = [line for line in range(LINES) if f"k{line % 7}".encode() == key]
        lines = [f"k{each % 7}-w{each % 3} k{each % 7}-w{each % 5} 1".encode() for each in at]
        assert [each.value for each in mine if each.topic.endswith("-joined")] == lines
        counts = [int(each.value or b"") for each in mine if each.topic.endswith("-out")]
        assert counts == sorted(counts)
        assert counts[-1] == len(at)
    assert len([each for each in outs if each.topic.endswith("-joined")]) == LINES
