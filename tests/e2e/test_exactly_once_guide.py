"""docs/exactly-once.md: its copy and its Streams app are killed hard in the middle, side by side,
and started again: each order is in both outputs once.

Those of Connect are in tests/connect/worker/test_exactly_once.py, of Spark in
tests/spark/test_copy_kills.py.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from moldau.client import NewTopic, TopicPartition
from moldau.client.sync import Admin, Consumer, Producer
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import text_of

pytestmark = pytest.mark.real

GUIDE = "exactly-once.md"
OUTPUTS = ("copies", "checked")
KILLS = 2
AT_ONCE = 20
BETWEEN = 100
"""A kill comes when both programs have committed so many more, while more is being written."""
WAIT_S = 120.0


def program_of_guide(name: str, folder: Path, servers: str) -> list[str]:
    """Write the guide's program of that name. Return the guide's command that starts it."""
    pattern = rf"`{name}`:\n\n```python\n(.*?)```\n\n```sh\n(.*?)\n```"
    found = re.search(pattern, text_of(GUIDE), re.DOTALL)
    assert found, f"the guide has no {name} with a command"
    program = found[1].replace("localhost:9092", servers)
    (folder / name).write_text(program, encoding="utf-8")
    words = shlex.split(found[2])
    starts = {"python": [sys.executable], "moldau": [sys.executable, "-m", "moldau.cli"]}
    return [*starts[words[0]], *words[1:]]


@contextmanager
def process(
    command: list[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the command, which is killed hard at the end, with all that it has started."""
    with (folder / "log").open("ab") as log:
        started = subprocess.Popen(  # noqa: S603 - our own command
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()


class Orders:
    """Writes orders, and reads what comes of them."""

    def __init__(self, servers: str, left: ExitStack) -> None:
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(each, 2, 1) for each in ("orders", *OUTPUTS)])
        self.written = 0
        self.found: dict[str, list[int]] = {each: [] for each in OUTPUTS}
        self._producer = left.enter_context(Producer(bootstrap_servers=servers))
        reader = Consumer(
            bootstrap_servers=servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        self._reader = left.enter_context(reader)
        self._reader.assign([TopicPartition(each, index) for each in OUTPUTS for index in (0, 1)])

    def write(self) -> None:
        for number in range(self.written, self.written + AT_ONCE):
            key = b"order-%d" % (number % 7)
            self._producer.send("orders", b"%d" % number, key=key, partition=number % 2)
        self._producer.flush()
        self.written += AT_ONCE

    def read(self) -> int:
        """Read what is committed by now. Return the number of the output that has less."""
        for part in self._reader.poll(0.05):
            self.found[part.topic] += [int(bytes(each or b"")) for each in part.values()]
        return min(map(len, self.found.values()))


def test_killed_programs_of_the_guide_write_each_order_once(tmp_path: Path) -> None:
    with ExitStack() as left:
        broker = left.enter_context(SyncEmbeddedBroker())
        servers = broker.bootstrap_servers
        commands = [
            program_of_guide(name, tmp_path, servers) for name in ("copy_orders.py", "checker.py")
        ]
        environment = {"MOLDAU_BOOTSTRAP": servers}
        orders = Orders(servers, left)

        def told() -> str:
            counts = {topic: len(values) for topic, values in orders.found.items()}
            return f"{counts} of {orders.written}\n{(tmp_path / 'log').read_text()[-5000:]}"

        for kill in range(KILLS + 1):
            end, enough = time.monotonic() + WAIT_S, orders.read() + BETWEEN
            with ExitStack() as running:
                for command in commands:
                    running.enter_context(process(command, tmp_path, environment))
                while orders.read() < (enough if kill < KILLS else orders.written):
                    if kill < KILLS:
                        orders.write()
                    assert time.monotonic() < end, told()
        for values in orders.found.values():
            assert sorted(values) == [*range(orders.written)], told()
