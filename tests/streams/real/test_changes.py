"""`moldau streams run` of an app with a renamed store: one line, and `--accept-changes`."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.streams.real.running import App

pytestmark = pytest.mark.real


def test_a_renamed_store_is_refused_until_it_is_meant(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    name = f"changes-{tmp_path.name}"
    app = App(moldau_broker.bootstrap_servers, name, tmp_path).make()
    process = app.start()
    app.write("a a")
    app.read(lambda found: found == {"a": 2})
    app.stop(process)

    other = App(app.servers, name, tmp_path, "renamed")
    other.log = tmp_path / "renamed.log"
    assert other.start().wait(60) == 1

    [line] = other.log.read_text().splitlines()
    assert line.startswith(f"moldau: app={name}: it is not the app that ran under this name before")
    assert "gone: store counts" in line
    process = other.start("--accept-changes", "--workers", "2")
    other.write("b")
    other.read(lambda found: found.get("b") == 1)
    other.stop(process)
