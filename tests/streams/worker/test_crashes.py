"""Workers as processes that are killed: nothing is lost, and only the tail is restored."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.streams.worker.processes import WordCount, kill, stop

pytestmark = pytest.mark.real

MANY = [f"word-{number:05}" for number in range(20_000)]


def test_after_kill_the_tail_alone_is_restored(
    moldau_broker: SyncEmbeddedBroker, tmp_path: Path
) -> None:
    app = WordCount(moldau_broker.bootstrap_servers, "killed-once", tmp_path).make()
    first = app.worker()
    app.write(*MANY)
    app.read(lambda found: len(found) == len(MANY))
    kill(first)
    total = app.changelog_records()
    second = app.worker()
    app.write(*MANY[:100])

    counts = app.read(lambda found: all(found.get(word, 0) >= 2 for word in MANY[:100]))

    assert all(counts[word] >= 1 for word in MANY)
    assert 0 < stop(second) < total
    third = app.worker()
    app.write("last")
    app.read(lambda found: found.get("last", 0) >= 1)
    assert stop(third) == 0
