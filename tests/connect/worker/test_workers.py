"""Several workers share connectors and tasks; one dies, and the others take over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from moldau.client.sync import Admin
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connect.third_party import install
from tests.connect.worker.scene import Scene, content, every, lines, numbers
from tests.connect.worker.task_audit import Audit, owners

pytestmark = pytest.mark.real

QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}


@pytest.fixture
def scene(moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path) -> Scene:
    packages = tmp_path / "packages"
    packages.mkdir()
    environment: Mapping[str, str] = install(packages)
    return Scene(moldau_broker, moldau_topic, environment)


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


def shares(worker: Worker, names: list[str]) -> dict[str, int]:
    """How many running tasks each worker has."""
    found: Counter[str] = Counter()
    for name in names:
        status, body = worker.ask("GET", f"/connectors/{name}/status")
        if status == 200:
            found.update(task["worker_id"] for task in body["tasks"] if task["state"] == "RUNNING")
    return dict(found)


def wait_for_shares(worker: Worker, names: list[str], wanted: list[int]) -> None:
    wait_until(
        lambda: sorted(shares(worker, names).values()) == wanted, f"tasks are shared {wanted}"
    )


def test_three_workers_share_evenly_and_nothing_runs_twice(scene: Scene, tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit")
    names = [f"audited-{number}" for number in range(3)]
    with ExitStack() as stack:
        workers = [stack.enter_context(scene.worker(**QUICK))]
        for name in names:
            workers[0].create(name, audit.config(2))
        wait_until(lambda: sum(shares(workers[0], names).values()) == 6, "all tasks run")
        for even in ([3, 3], [2, 2, 2]):
            workers.append(stack.enter_context(scene.worker(**QUICK)))
            wait_for_shares(workers[0], names, even)
        assert workers[1].stop() == 0
        wait_for_shares(workers[0], names, [3, 3])
        audit.check()
        workers[2].kill()

        mine = workers[0].url.removeprefix("http://")
        wait_until(lambda: shares(workers[0], names) == {mine: 6}, "the last one has all")
    audit.check()


def test_the_tasks_of_a_killed_worker_wait_for_it(scene: Scene, tmp_path: Path) -> None:
    """KIP-415: what it ran goes to nobody else before `scheduled.rebalance.max.delay.ms` is over;
    as soon as it is back it has all of it again, and nothing else has moved."""
    audit = Audit(tmp_path / "audit")
    names = ["audited-0", "audited-1"]
    delays = {**QUICK, "scheduled.rebalance.max.delay.ms": "600000"}
    with ExitStack() as stack:
        first = stack.enter_context(scene.worker(**delays))
        for name in names:
            first.create(name, audit.config(2))
        second = stack.enter_context(scene.worker(**delays))
        wait_for_shares(first, names, [2, 2])
        before = len(audit.starts())
        second.kill()
        stack.enter_context(scene.worker(**delays))

        wait_until(lambda: len(audit.starts()) == before + 2, "two tasks began anew")
        wait_for_shares(first, names, [2, 2])
        assert len(audit.starts()) == before + 2, "those of the other worker stayed"
    audit.check()


def test_a_worker_learns_of_a_new_connector_before_its_next_heartbeat(
    scene: Scene, tmp_path: Path
) -> None:
    rare = {"session.timeout.ms": "90000", "heartbeat.interval.ms": "30000"}
    names = [f"{scene.name}-{number}" for number in range(4)]
    with ExitStack() as stack:
        first = stack.enter_context(scene.worker(**rare))
        first.create(names[0], numbers(scene.name, 1))
        first.wait_for(names[0], "RUNNING", "RUNNING")
        second = stack.enter_context(scene.worker(**rare))
        for name in names[1:]:
            second.create(name, numbers(scene.name, 1))
            second.wait_for(name, "RUNNING", "RUNNING")
        wait_until(lambda: len(owners(first, *names)) == 2, "both have tasks", 25)
        assert second.stop() == 0


def test_statuses_are_of_the_new_worker_when_the_group_was_gone(scene: Scene) -> None:
    """As after a long time without workers: the broker forgets an empty group, and the generations
    of its next members begin again at 1."""
    with scene.worker() as first:
        for name in ("some", "others"):
            first.create(name, numbers(scene.name, 1))
            first.wait_for(name, "RUNNING", "RUNNING")
        assert first.stop() == 0
    with Admin(bootstrap_servers=scene.broker.bootstrap_servers) as admin:
        admin.delete_group(scene.name)
    with scene.worker() as second:
        mine = second.url.removeprefix("http://")
        wait_until(lambda: owners(second, "some", "others") == {mine}, "all run at the new one")
        second.wait_for("some", "RUNNING", "RUNNING")
        assert second.stop() == 0


def test_offsets_change_when_the_tasks_on_other_workers_have_ended(scene: Scene) -> None:
    names = [f"numbers-{number}" for number in range(3)]
    with ExitStack() as stack:
        leader = stack.enter_context(scene.worker(**QUICK))
        other = stack.enter_context(scene.worker(**QUICK))
        for name in names:
            leader.create(name, numbers(scene.name, 1_000, pause_ms="1500"))
        theirs = {other.url.removeprefix("http://")}
        wait_until(lambda: any(owners(leader, each) == theirs for each in names), "both have tasks")
        name = next(each for each in names if owners(leader, each) == theirs)
        one = f"/connectors/{name}/offsets"
        wait_until(lambda: leader.ask("GET", one)[1]["offsets"], "it has an offset")
        wanted = {"offsets": [{"partition": {"task": "0"}, "offset": {"next": 500}}]}

        leader.ask("PUT", f"/connectors/{name}/stop")
        assert leader.ask("PATCH", one, wanted)[0] == 200

        assert other.stop() == 0  # its tasks have ended, and stored what they had to store
        assert leader.ask("GET", one) == (200, wanted)
