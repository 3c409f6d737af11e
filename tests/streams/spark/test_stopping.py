"""An app on Spark stops between batches, and what it has committed counts.

The stages run on a real broker, without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from moldau.streams.problems import StreamsError
from moldau.streams.spark import stage
from moldau.streams.spark.engine import SparkApp
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark import streams_apps as apps
from tests.streams.spark.batches import Batches, Context, app_on

LINES = 20


def stop_elsewhere(running: SparkApp) -> None:
    """Another thread has called `stop`, which waits for the batch."""
    thread = Thread(target=running.stop, daemon=True)
    thread.start()
    wait_until(lambda: running._is_stopping, "it is told to stop")
    assert thread.is_alive()


@pytest.mark.parametrize("stop", [stop_elsewhere, SparkApp.stop])
def test_an_app_that_runs_what_is_there_stops_after_the_batch(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    stop: Callable[[SparkApp], None],
) -> None:
    """`stop` comes from another thread, or on the same one, as from a handler of a signal."""
    servers, app = moldau_broker.bootstrap_servers, apps.word_count(moldau_topic)
    context = Context(tmp_path, Random(1))
    given = {"bootstrap.servers": servers, "spark.batch.records.max": "4"}
    apps.make_topics(servers, app)
    apps.write(servers, app.name, 0, LINES, has_cities=False)

    with app_on(context, app.plan(), tmp_path / "checkpoint", given) as running:
        context.before = lambda: stop(running)
        running.process_available()
        assert 0 < running.records < LINES
        with pytest.raises(StreamsError, match="it has stopped"):
            running.process_available()

    with app_on(context, app.plan(), tmp_path / "checkpoint", given) as running:
        running.process_available()
    found = apps.in_order(apps.outs_of(servers, app), app.name)
    assert sum(map(len, found.values())) == 2 * LINES
    for outs in found.values():
        assert [int(value) for value, _, _ in outs] == list(range(1, len(outs) + 1))


def test_a_worker_forgets_an_app_that_runs_no_more(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = moldau_broker.bootstrap_servers
    stage._LOADED.clear()
    for name in (f"{moldau_topic}-a", f"{moldau_topic}-b"):
        app = apps.word_count(name)
        apps.make_topics(servers, app)
        apps.write(servers, name, 0, 5, has_cities=False)
        with closing(Batches(app.plan(), servers, tmp_path / name, Random(1))) as batches:
            batches.settle()
        monkeypatch.setattr("moldau.executors.clients._IDLE_S", 0.0)

    assert len(stage._LOADED) == 1
    stage._LOADED.drop_if(lambda each: each.program.app == name)
    assert len(stage._LOADED) == 0
