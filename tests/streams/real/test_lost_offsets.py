"""An app whose group has lost its offsets, or whose input has lost records that were not read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moldau.client import TopicPartition
from moldau.client.sync import Admin
from moldau.testing import SyncEmbeddedBroker
from tests.streams.real.running import ROOT, App

pytestmark = pytest.mark.real


def plan(app: App) -> tuple[int, dict[str, Any]]:
    """The exit code of `moldau streams plan`, and what it says."""
    command = [sys.executable, "-m", "moldau.cli", "streams", "plan", "--json", "-b", app.servers]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, "--state", str(app.state), f"tests.streams.real.apps:{app.which}"],
        env={**os.environ, "APP": app.name},
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, json.loads(done.stdout)


def counted(broker: SyncEmbeddedBroker, folder: Path) -> App:
    """An app that has counted two words, and was stopped."""
    name = f"lost-{folder.name}".replace("_", "-")
    app = App(broker.bootstrap_servers, name, folder, partitions=1).make()
    process = app.start()
    app.write("a b a")
    app.read(lambda found: found == {"a": 2, "b": 1})
    app.stop(process)
    assert plan(app)[0] == 0
    return app


def test_records_that_are_gone_unread_are_told_by_the_plan(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = counted(moldau_broker, tmp_path)
    app.write("c", "d", "e")
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.delete_records({TopicPartition(f"{app.name}-lines", 0): 3})
    code, found = plan(app)
    assert code == 1
    (said,) = found["problems"]
    assert f"input {app.name}-lines partition 0: 2 records" in said
