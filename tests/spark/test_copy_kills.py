"""The program of docs/exactly-once.md: its driver is killed, and each row is in the topic once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from moldau.spark.java import find_java
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import programs
from tests.connect.committed import committed
from tests.connect.processes import wait_until
from tests.connectors.spark.runners import need_spark
from tests.spark.topics import make_topic, numbers, send

pytestmark = pytest.mark.real

ROWS = 300
WAIT_S = 300.0
BATCH = ("10000", "30")
"""The rows of a batch: in the guide, and here."""


@contextmanager
def driver(program: Path, log: Path) -> Iterator[Any]:
    """A process of the program, killed at the end with Java and the workers in its group."""
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, str(program)],
            env={**os.environ, "JAVA_HOME": find_java().home, "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=program.parent,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def program_of_guide(broker: SyncEmbeddedBroker, topic: str, folder: Path) -> Path:
    """The guide's program, with topics and an address of this test and smaller batches."""
    (text,) = [each for each in programs("exactly-once.md") if "moldau.spark" in each]
    changes = {
        "localhost:9092": broker.bootstrap_servers,
        '"orders"': f'"{topic}"',
        '"spark-copies"': f'"{topic}-copies"',
        f'"{BATCH[0]}"': f'"{BATCH[1]}"',
    }
    for said, here in changes.items():
        assert said in text
        text = text.replace(said, here)
    program = folder / "copy_orders.py"
    program.write_text(text, encoding="ascii")
    return program


def test_killed_drivers_write_each_row_once(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    need_spark()
    copies, log = f"{moldau_topic}-copies", tmp_path / "log"
    for topic in (moldau_topic, copies):
        make_topic(moldau_broker, topic)
    for partition in range(2):
        values = numbers(ROWS // 2, partition * ROWS // 2)
        send(moldau_broker, moldau_topic, values, partition)
    program = program_of_guide(moldau_broker, moldau_topic, tmp_path)

    def found() -> list[int]:
        return sorted(map(int, committed(moldau_broker.bootstrap_servers, copies)))

    def run_until(count: int) -> None:
        with driver(program, log) as process:
            wait_until(lambda: len(found()) >= count or process.poll() is not None, "rows", WAIT_S)
            assert process.poll() is None, log.read_text()[-3000:]

    # Each is killed when its last rows are there: Spark most likely has not noted the batch.
    for count in (1, 100, ROWS):
        run_until(count)

    assert found() == [*range(ROWS)]
