"""A worker and its tasks stand still, are replaced by another worker, and go on: what they send
then is refused, and each record is committed once."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.committed import committed, wait_for_records
from tests.connect.kills.held import Holds
from tests.connect.kills.held_sources import install
from tests.connect.processes import Worker, wait_until
from tests.connect.worker.scene import Scene

pytestmark = [pytest.mark.real, pytest.mark.deep]

QUICK = {
    "session_timeout_ms": "6000",
    "heartbeat_interval_ms": "500",
    "scheduled_rebalance_max_delay_ms": "0",
}
LINES = 40
ENABLED = {"exactly_once_source_support": "enabled"}


class Stopped:
    """A worker and its tasks between SIGSTOP and SIGCONT."""

    def __init__(self, worker: Worker) -> None:
        self._pids = [worker.process.pid, *worker.task_pids()]
        self._send(signal.SIGSTOP)

    def _send(self, number: signal.Signals) -> None:
        for pid in self._pids:
            os.kill(pid, number)

    def go_on(self) -> None:
        self._send(signal.SIGCONT)


def owner(asked: Worker) -> str:
    _, body = asked.ask("GET", "/connectors/lines/status")
    tasks = [task for task in body.get("tasks", ()) if task["state"] == "RUNNING"]
    return str(tasks[0]["worker_id"]) if tasks else ""


@pytest.mark.parametrize("step", ["poll", "commit"])
def test_a_task_that_stood_still_cannot_write_any_more(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path, step: str
) -> None:
    packages, folder, file = (tmp_path / name for name in ("packages", "holds", "lines"))
    for each in (packages, folder):
        each.mkdir()
    environment: Mapping[str, str] = install(packages, folder)
    scene, holds = Scene(moldau_broker, moldau_topic, environment), Holds(folder)
    count = 0

    def add() -> int:
        with file.open("a") as opened:
            opened.writelines(f"line {number}\n" for number in range(count, count + LINES))
        return count + LINES

    with ExitStack() as stack:
        workers = [stack.enter_context(scene.worker(**ENABLED, **QUICK)) for _ in range(2)]
        count = add()
        config = {"connector.class": "HeldText", "file": str(file), "topic": scene.name}
        workers[0].create("lines", {**config, "exactly.once.support": "required"})
        wait_for_records(moldau_broker, scene.name, count)
        by_name = {each.url.removeprefix("http://"): each for each in workers}
        for _ in range(2):
            wait_until(lambda: bool(owner(workers[0])), "the workers have settled")
            zombie = by_name[owner(workers[0])]
            (other,) = (each for each in workers if each is not zombie)
            holds.ask(step)
            count = add()
            wait_until(lambda: holds.is_reached(step), f"the task is at {step}")
            stopped = Stopped(zombie)
            try:
                holds.release(step)
                wait_for_records(moldau_broker, scene.name, count)
                other.wait_for("lines", "RUNNING", "RUNNING")
            finally:
                stopped.go_on()
            count = add()
            wait_for_records(moldau_broker, scene.name, count)
            workers[0].wait_for("lines", "RUNNING", "RUNNING")

    found = committed(moldau_broker.bootstrap_servers, scene.name)
    assert sorted(found) == sorted(f"line {number}" for number in range(count))
