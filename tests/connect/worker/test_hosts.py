"""Tasks share processes: what a crash and a hang of one of them do to the others."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connect.third_party import install
from tests.connect.worker.scene import Scene, content, is_alive, lines, numbers
from tests.connect.worker.task_audit import Audit

pytestmark = pytest.mark.real


@pytest.fixture
def scene(moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path) -> Scene:
    packages = tmp_path / "packages"
    packages.mkdir()
    environment: Mapping[str, str] = install(packages)
    return Scene(moldau_broker, moldau_topic, environment)


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(tmp_path / "audit")


def pids_of(audit: Audit) -> dict[str, list[int]]:
    """The process of each start of each task, in order."""
    found: dict[str, list[int]] = {}
    for name, pid, _ in map(str.split, content(audit.folder / "starts")):
        found.setdefault(name, []).append(int(pid))
    return found


def created(worker: Worker, audit: Audit, count: int) -> list[str]:
    """The names of this many connectors, which run."""
    names = [f"audited-{number}" for number in range(count)]
    for name in names:
        worker.create(name, audit.config(1))
    for name in names:
        worker.wait_for(name, "RUNNING", "RUNNING")
    return names


def wait_for_starts(audit: Audit, count: int) -> None:
    wait_until(
        lambda: sum(map(len, pids_of(audit).values())) == count, f"tasks have started {count} times"
    )


def test_a_crash_restarts_the_tasks_of_its_process_and_no_other(scene: Scene, audit: Audit) -> None:
    # A crash of neighbours is not a failure of the task: it counts in no limit of restarts.
    with scene.worker(task_hosts_max="2", errors_restart_max="0") as worker:
        names = created(worker, audit, 4)
        before = pids_of(audit)
        victim = before["audited-0-0"][0]
        hurt = {name for name, pids in before.items() if pids == [victim]}
        assert len(hurt) == 2
        assert sorted(worker.task_pids()) == sorted({pid for [pid] in before.values()})

        os.kill(victim, signal.SIGKILL)

        wait_for_starts(audit, 6)
        assert {name for name, pids in pids_of(audit).items() if len(pids) == 2} == hurt
        for name in names:
            worker.wait_for(name, "RUNNING", "RUNNING")
        assert worker.stop() == 0
    audit.check()


def test_after_two_crashes_each_task_is_alone_and_the_third_is_its_own(
    scene: Scene, audit: Audit
) -> None:
    with scene.worker(task_hosts_max="1", errors_restart_max="0") as worker:
        names = created(worker, audit, 3)
        for crash in (1, 2):
            [pid] = {pids[-1] for pids in pids_of(audit).values()}
            os.kill(pid, signal.SIGKILL)
            wait_for_starts(audit, 3 * (crash + 1))
        last = {name: pids[-1] for name, pids in pids_of(audit).items()}
        assert len(set(last.values())) == 3

        os.kill(last["audited-1-0"], signal.SIGKILL)

        worker.wait_for("audited-1", "RUNNING", "FAILED")
        for name in (names[0], names[2]):
            worker.wait_for(name, "RUNNING", "RUNNING")
        wait_for_starts(audit, 9)
    audit.check()


def test_a_task_that_hangs_is_killed_after_its_neighbours_have_moved(
    scene: Scene, audit: Audit, tmp_path: Path
) -> None:
    out, hang = tmp_path / "out", tmp_path / "hang"
    with scene.worker(task_hosts_max="1", task_shutdown_graceful_timeout_ms="500") as worker:
        worker.create("numbers", numbers(scene.name, 10))
        worker.create(scene.sink, lines(scene.name, out, hang_file=str(hang)))
        [name] = created(worker, audit, 1)
        wait_until(lambda: len(content(out)) >= 10, "it runs")
        [old] = worker.task_pids()
        hang.touch()
        worker.create("more", numbers(scene.name, 20))
        worker.wait_for("more", "RUNNING", "RUNNING")

        worker.ask("DELETE", f"/connectors/{scene.sink}")

        wait_until(lambda: not is_alive(old), "the process is killed")
        wait_for_starts(audit, 2)
        for each in (name, "numbers", "more"):
            worker.wait_for(each, "RUNNING", "RUNNING")
        assert old not in worker.task_pids()
    audit.check()


def test_a_connector_may_have_processes_of_its_own(scene: Scene, audit: Audit) -> None:
    with scene.worker(task_hosts_max="1") as worker:
        created(worker, audit, 2)
        config = {**audit.config(1), "task.isolation": "process"}
        worker.create("alone", config)
        worker.wait_for("alone", "RUNNING", "RUNNING")

        pids = {name: starts[0] for name, starts in pids_of(audit).items()}
        assert pids["audited-0-0"] == pids["audited-1-0"] != pids["alone-0"]
        worker.ask("DELETE", "/connectors/alone")
        wait_until(lambda: not is_alive(pids["alone-0"]), "its process ends with it")
        assert is_alive(pids["audited-0-0"])
