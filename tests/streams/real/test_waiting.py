"""An app that is started before its broker waits for it, and says so."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker
from tests.streams.real.running import App

pytestmark = pytest.mark.real


def await_line(app: App, process: subprocess.Popen[str], words: str) -> None:
    end = time.monotonic() + 60
    while words not in app.log.read_text():
        assert process.poll() is None, app.log.read_text()
        assert time.monotonic() < end, app.log.read_text()
        time.sleep(0.05)


def test_an_app_that_waits_for_its_broker_can_be_stopped(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = ("start.timeout.ms=600000",)
    app = App(f"localhost:{port}", "early", tmp_path, settings=settings)
    process = app.start()
    await_line(app, process, "waits up to 600 s for its cluster")
    app.stop(process)  # it gives up after 120 s


def test_an_app_waits_for_a_broker_that_is_not_up(tmp_path: Path) -> None:
    directory = str(tmp_path / "broker")
    with SyncEmbeddedBroker(directory=directory) as broker:
        port = broker.port
        app = App(broker.bootstrap_servers, "early", tmp_path).make()
    process = app.start()
    await_line(app, process, "waits up to 30 s for its cluster")
    with SyncEmbeddedBroker(directory=directory, port=port):
        app.write("a b a")
        app.read(lambda found: found == {"a": 2, "b": 1})
        app.stop(process)
