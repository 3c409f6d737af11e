"""A worker whose broker is gone still ends soon when it is told to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.connect.kills.victims import Broker
from tests.connect.processes import command

pytestmark = [pytest.mark.real, pytest.mark.deep]


def test_a_worker_ends_though_its_broker_does_not_answer(tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"line {number}\n" for number in range(100)))
    (tmp_path / "broker").mkdir()
    broker = Broker(tmp_path / "broker")
    broker.start()
    try:
        words = ("start", "--bootstrap", broker.bootstrap, "--listen", "127.0.0.1:0")
        with command(*words, environment=os.environ) as worker:
            source = {"connector.class": "FileStreamSource", "topic": "t", "file": str(lines)}
            worker.create("lines", source)
            worker.wait_for("lines", "RUNNING", "RUNNING")
            broker.end()
            lines.write_text(lines.read_text() + "one more\n")

            assert worker.stop() == 0  # within 30 s, or this raises
    finally:
        broker.end()
