"""Operators of users in two workers on topics of two partitions, by `moldau streams run`."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from moldau.streams import Asker, ReplyFailed
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.peers.eventually import eventually
from tests.streams.real.running import App

pytestmark = [pytest.mark.real, pytest.mark.deep]

_WAIT_S = 120
_PROCESS = re.compile(r"has process id (\d+)")


def put(app: App, rows: Mapping[str, str], topic: str = "lines") -> None:
    with Producer(bootstrap_servers=app.servers) as producer:
        producer.send_many(
            f"{app.name}-{topic}",
            [value.encode() for value in rows.values()],
            keys=[key.encode() for key in rows],
        )
        producer.flush()


def sums(app: App, wanted: Mapping[str, int]) -> Counter[str]:
    """Add up the committed numbers of each key in the output until they are these."""
    found: Counter[str] = Counter()
    with Consumer(
        bootstrap_servers=app.servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        consumer.assign(consumer.partitions(f"{app.name}-out"))
        end = time.monotonic() + _WAIT_S
        while time.monotonic() < end and found != wanted:
            for part in consumer.poll(0.25):
                for record in part.records:
                    assert record.key is not None
                    assert record.value is not None
                    found[record.key.decode()] += int(record.value)
    return found


def test_changes_of_a_table_are_processed_over_a_restore(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    name = f"moving-{tmp_path.name}"
    app = App(moldau.bootstrap_servers, name, tmp_path, "moving", module="operated").make()
    keys = [f"key-{number}" for number in range(40)]
    process = app.start("--workers", "2")
    prices: dict[str, int] = {}
    for factor in (3, 9, 5):
        prices = {key: factor * (number + 1) for number, key in enumerate(keys)}
        put(app, {key: str(price) for key, price in prices.items()})
    assert sums(app, prices) == prices
    app.stop(process)
    shutil.rmtree(app.state)

    process = app.start("--workers", "2")
    prices = {key: 7 * (number + 1) for number, key in enumerate(keys)}
    put(app, {key: str(price) for key, price in prices.items()})
    assert sums(app, prices) == prices
    highest = {key: 9 * (number + 1) for number, key in enumerate(keys)}
    assert app.read(lambda found: found == highest, topic="largest") == highest
    app.stop(process)


def kill(app: App, process: subprocess.Popen[str]) -> None:
    """Kill the supervisor and its workers, and wait until all are gone."""
    process.kill()
    process.wait(_WAIT_S)
    workers = [int(each) for each in _PROCESS.findall(app.log.read_text())]
    for each in workers:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    eventually(lambda: not any(Path(f"/proc/{each}").exists() for each in workers))


def test_a_global_store_is_processed_once_over_kills_and_again_from_nothing(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    name = f"totalled-{tmp_path.name}"
    app = App(moldau.bootstrap_servers, name, tmp_path, "totalled", module="operated").make()
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.create_topic(NewTopic(f"{name}-numbers", 2, 1))
    keys = [f"key-{number}" for number in range(200)]
    lines = {key: key for key in keys[:20]}

    def expect(total: int) -> None:
        """Ask again until the newest answers have this total: a write shows within a turn."""
        wanted = dict.fromkeys(lines, total)

        def is_there(found: Mapping[str, int]) -> bool:
            if found != wanted:
                put(app, lines)
            return found == wanted

        app.read(is_there)

    for _ in range(50):
        put(app, dict.fromkeys(keys, "1"), "numbers")
    process = app.start("--workers", "2")
    expect(50)
    kill(app, process)
    put(app, dict.fromkeys(keys, "2"), "numbers")
    process = app.start("--workers", "2")
    expect(52)
    app.stop(process)
    shutil.rmtree(app.state)
    put(app, dict.fromkeys(keys, "3"), "numbers")
    process = app.start("--workers", "2")
    expect(55)
    app.stop(process)


def test_requests_are_answered_over_the_kill_of_a_worker(
    moldau: MoldauBroker, tmp_path: Path
) -> None:
    name = f"replying-{tmp_path.name}"
    app = App(moldau.bootstrap_servers, name, tmp_path, "replying", module="operated").make()
    process = app.start("--workers", "2")

    async def ask() -> None:
        async with Asker("test", app.servers) as asker:

            async def roots(numbers: range) -> list[int]:
                squares = [number * number for number in numbers]
                return await asker.ask_all(
                    f"{name}-lines", squares, key=str, type=int, timeout="100s"
                )

            assert await roots(range(200)) == list(range(200))
            parts = [range(at, at + 100) for at in range(0, 2000, 100)]
            asking = [asyncio.ensure_future(roots(part)) for part in parts]
            await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            workers = _PROCESS.findall(app.log.read_text())
            os.kill(int(workers[0]), signal.SIGKILL)
            later = roots(range(3000, 3100))
            found = await asyncio.gather(*asking, later)
            assert found == [list(part) for part in (*parts, range(3000, 3100))]
            with pytest.raises(ReplyFailed, match="-4 is below 0"):
                await asker.ask(f"{name}-lines", -4, key="a", timeout="100s")

    asyncio.run(ask())
    # The killed one is started again, and has joined.
    eventually(lambda: app.log.read_text().count(": reading ") == 3, within_s=_WAIT_S)
    app.stop(process)
