"""`kill -9` while rows of a store get another form, and workers that go on, here and elsewhere."""

from __future__ import annotations

import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.peers.eventually import eventually
from tests.streams.real.running import App

pytestmark = pytest.mark.real
KEYS = 40_000
_MIGRATED = re.compile(r"(\d+) rows of counts have version 2 now")


def migrated(app: App) -> list[int]:
    """The rows that each transaction has changed, by the log."""
    return [int(each) for each in _MIGRATED.findall(app.log.read_text())]


def has_migrated_more(app: App, count: int) -> bool:
    return len(migrated(app)) > count


def test_rows_have_the_new_form_once_after_kills(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    name = f"killed-{tmp_path.name}".replace("_", "-")
    app = App(moldau_broker.bootstrap_servers, name, tmp_path, "numbered", 1).make()
    lines = [f"k{at}" for at in range(KEYS)]
    running = app.start()
    app.write(*lines)
    app.read(lambda found: len(found) == KEYS)
    app.stop(running)

    app.which = "marked"
    for life in range(2):
        before = len(migrated(app))
        running = app.start("--state", str(tmp_path / f"state-{life}"))
        eventually(partial(has_migrated_more, app, before), within_s=120)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert sum(migrated(app)) < KEYS, "it was killed too late"

    running = app.start("--state", str(tmp_path / "state-0"))
    app.write(*lines)
    app.read(lambda found: len(found) == KEYS and set(found.values()) == {2}, value=len)
    app.stop(running)
    assert sum(migrated(app)) <= KEYS, "a row has changed twice"
