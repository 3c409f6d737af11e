"""Several workers share connectors and tasks; one dies, and the others take over."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connect.third_party import install
from tests.connect.worker.test_end_to_end import Scene, content, every, lines, numbers

pytestmark = pytest.mark.real

QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}


@pytest.fixture
def scene(moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path) -> Scene:
    packages = tmp_path / "packages"
    packages.mkdir()
    environment: Mapping[str, str] = install(packages)
    return Scene(moldau_broker, moldau_topic, environment)


def owners(worker: Worker, *names: str) -> set[str]:
    """The workers that run tasks, as this one knows it."""
    found = set()
    for name in names:
        status, body = worker.ask("GET", f"/connectors/{name}/status")
        if status == 200:
            found |= {task["worker_id"] for task in body["tasks"] if task["state"] == "RUNNING"}
    return found


def test_two_workers_share_and_one_takes_over_what_a_killed_one_ran(
    scene: Scene, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with ExitStack() as stack:
        first = stack.enter_context(scene.worker(**QUICK))
        first.create("numbers", {**numbers(scene.name, 300, pause_ms="20"), "tasks.max": "2"})
        first.wait_for("numbers", "RUNNING", "RUNNING", "RUNNING")
        second = stack.enter_context(scene.worker(**QUICK))
        # Whoever is asked: the leader writes.
        second.create(scene.sink, lines(scene.name, out))
        wait_until(lambda: len(owners(first, "numbers", scene.sink)) == 2, "both have tasks")
        second.wait_for(scene.sink, "RUNNING", "RUNNING")

        first.kill()

        mine = second.url.removeprefix("http://")
        wait_until(lambda: owners(second, "numbers", scene.sink) == {mine}, "it runs everything")
        wanted = every(300) | {f"1:{number}" for number in range(300)}
        wait_until(lambda: set(content(out)) >= wanted, "nothing is lost", 120)
        assert second.ask("GET", "/connectors")[1] == sorted(["numbers", scene.sink])
