"""An app that is started before its broker waits for it, and says so."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.streams.real.running import App

pytestmark = pytest.mark.real


def test_an_app_waits_for_a_broker_that_is_not_up(tmp_path: Path) -> None:
    directory = str(tmp_path / "broker")
    with SyncEmbeddedBroker(directory=directory) as broker:
        port = broker.port
        app = App(broker.bootstrap_servers, "early", tmp_path).make()
    process = app.start()
    end = time.monotonic() + 60
    while "waits up to 30 s for its cluster" not in app.log.read_text():
        assert process.poll() is None, app.log.read_text()
        assert time.monotonic() < end, app.log.read_text()
        time.sleep(0.05)
    with SyncEmbeddedBroker(directory=directory, port=port):
        app.write("a b a")
        app.read(lambda found: found == {"a": 2, "b": 1})
        app.stop(process)
