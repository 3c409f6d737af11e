"""Two workers, one of them killed in the pause of a `retry`: all branches are exact."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin
from tests.conformance.broker import MoldauBroker
from tests.conformance.broker import moldau as moldau
from tests.connect.processes import wait_until
from tests.streams.real.machines import machines
from tests.streams.real.running import App

pytestmark = pytest.mark.real

LINES: Final = [f"line {number}" for number in range(200)]


def test_a_worker_that_is_killed_in_a_pause_leaves_nothing_half_done(
    moldau: MoldauBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = tmp_path / "service"
    monkeypatch.setenv("SERVICE", str(service))
    settings = ("commit.interval.ms=50", "processing.guarantee=exactly_once_v2")
    name = f"pauses-{tmp_path.name}"
    app = App(moldau.bootstrap_servers, name, tmp_path, "serving", 2, settings).make()
    with Admin(bootstrap_servers=app.servers) as admin:
        admin.create_topic(NewTopic(f"{name}-counts", 2, 1))
    workers = machines(app, 2)
    processes = [each.start() for each in workers]
    app.write(*LINES)
    wait_until(lambda: any(tmp_path.glob("service.*")), "no call has failed")
    victim = next(each for each in processes if (tmp_path / f"service.{each.pid}").exists())
    at = processes.index(victim)
    wait_until(lambda: app.committed("largest") != [], "nothing is committed in the pause")

    victim.kill()
    assert victim.wait(60) == -signal.SIGKILL
    service.touch()
    processes[at] = workers[at].start()
    wait_until(lambda: len(app.committed("out")) >= len(LINES), "lines are missing", 120)
    wait_until(lambda: app.committed("counts").count("20") >= 10, "counts are missing", 120)
    for worker, process in zip(workers, processes, strict=True):
        worker.stop(process)

    assert sorted(app.committed("out")) == sorted(LINES)
    assert sorted(app.committed("largest")) == sorted(LINES)
    counts = [int(count) for count in app.committed("counts")]
    assert (max(counts), counts.count(20)) == (20, 10)
