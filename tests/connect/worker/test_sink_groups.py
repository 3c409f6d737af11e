"""A sink's consumer group: tasks keep their places, leave at their end, and yield when fenced."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from moldau.client import TopicPartition
from moldau.client.sync import Admin, Consumer
from moldau.errors.codes import KafkaError
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connect.third_party import install
from tests.connect.worker.scene import Scene, lines

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def worker(
    moldau_broker: SyncEmbeddedBroker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    scene = Scene(moldau_broker, "sink-groups", install(tmp_path_factory.mktemp("packages")))
    with scene.worker(**{"task.isolation": "thread"}) as running:
        yield running


@pytest.fixture
def admin(moldau_broker: SyncEmbeddedBroker) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": moldau_broker.bootstrap_servers}) as found:
        yield found


def members(admin: Admin, group: str) -> dict[str | None, set[TopicPartition]]:
    """Instance ids and what each has; nothing while there is no group."""
    try:
        found = admin.describe_group(group)
    except KafkaError:
        return {}
    return {each.instance_id: set(each.assignment or ()) for each in found.members}


def test_members_have_ids_and_leave_with_their_tasks(
    worker: Worker, admin: Admin, moldau_topic: str, tmp_path: Path
) -> None:
    name = moldau_topic
    group = f"connect-{name}"
    config = {**lines(name, tmp_path / "out"), "tasks.max": "2"}
    worker.create(name, config)
    both = {f"connect-sink-groups-{name}-0", f"connect-sink-groups-{name}-1"}
    wait_until(lambda: set(members(admin, group)) == both, "both tasks are members")

    worker.ask("PUT", f"/connectors/{name}/config", {**config, "tasks.max": "1"})
    first = f"connect-sink-groups-{name}-0"
    wait_until(lambda: set(members(admin, group)) == {first}, "the second has left", 40)

    assert worker.ask("DELETE", f"/connectors/{name}")[0] == 204
    wait_until(lambda: members(admin, group) == {}, "the first has left", 40)


def test_no_member_is_left_of_a_task_that_ends_as_it_begins_again(
    worker: Worker, admin: Admin, moldau_topic: str, tmp_path: Path
) -> None:
    """A changed task begins again under its name, and may be deleted before it has joined."""

    def has_members(group: str) -> bool:
        return bool(members(admin, group))

    def is_empty(group: str) -> bool:
        return not members(admin, group)

    for number in range(3):
        name = f"{moldau_topic}-{number}"
        config = lines(moldau_topic, tmp_path / name)
        worker.create(name, config)
        wait_until(partial(has_members, f"connect-{name}"), "it is a member")

        changed = {**config, "errors.retry.delay.max.ms": "50000"}
        worker.ask("PUT", f"/connectors/{name}/config", changed)
        assert worker.ask("DELETE", f"/connectors/{name}")[0] == 204
        wait_until(partial(is_empty, f"connect-{name}"), "it has left", 20)


def test_a_fenced_task_ends_with_one_line_and_does_not_fence_in_turn(
    worker: Worker, admin: Admin, moldau_broker: SyncEmbeddedBroker, moldau_topic: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    name = moldau_topic
    worker.create(name, {**lines(name, tmp_path / "out"), "errors.restart.backoff.ms": "1"})
    mine = f"connect-sink-groups-{name}-0"
    wait_until(lambda: bool(members(admin, f"connect-{name}").get(mine)), "it is a member")
    settings = {
        "bootstrap.servers": moldau_broker.bootstrap_servers,
        "group.id": f"connect-{name}",
        "group.instance.id": mine,
    }
    with Consumer(settings) as other:
        other.subscribe([name])
        wait_until(lambda: not other.poll(0.1) and bool(other.assignment), "it is taken over")
        worker.wait_for(name, "RUNNING", "FAILED")
        for _ in range(10):
            other.poll(0.1)  # raises if the task fences this one in turn
        assert worker.states(name) == ["RUNNING", "FAILED"]
        other.close(leave_group=True)
    _, status = worker.ask("GET", f"/connectors/{name}/tasks/0/status")
    line = status["trace"].splitlines()[0]
    assert line.startswith("another process runs this task and has taken its place in the group")

    assert worker.ask("POST", f"/connectors/{name}/tasks/0/restart")[0] == 204
    worker.wait_for(name, "RUNNING", "RUNNING")


def test_an_id_of_the_users_is_used(
    worker: Worker, admin: Admin, moldau_topic: str, tmp_path: Path
) -> None:
    name = moldau_topic
    more = {"consumer.override.group.instance.id": "mine", "tasks.max": "2"}
    worker.create(name, {**lines(name, tmp_path / "out"), **more})

    wait_until(lambda: set(members(admin, f"connect-{name}")) == {"mine", "mine-1"}, "they join")
    worker.ask("DELETE", f"/connectors/{name}")
    wait_until(lambda: members(admin, f"connect-{name}") == {}, "they leave for good", 40)


def test_a_task_that_is_deleted_before_it_joins_gives_its_place_up(
    worker: Worker, admin: Admin, moldau_broker: SyncEmbeddedBroker, moldau_topic: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    """A place of an earlier run: else it is kept until the session ends."""
    name = moldau_topic
    group, mine = f"connect-{name}", f"connect-sink-groups-{name}-0"
    settings = {
        "bootstrap.servers": moldau_broker.bootstrap_servers,
        "group.id": group,
        "group.instance.id": mine,
        "session.timeout.ms": "300000",
    }
    with Consumer(settings) as earlier:
        earlier.subscribe([name])
        wait_until(lambda: not earlier.poll(0.1) and bool(earlier.assignment), "it has a place")
        earlier.close(leave_group=False)
    assert set(members(admin, group)) == {mine}

    gate = tmp_path / "gate"
    worker.create(name, {**lines(name, tmp_path / "out"), "start.file": str(gate)})
    wait_until(lambda: Path(f"{gate}.waits").exists(), "the task is about to start")
    assert worker.ask("DELETE", f"/connectors/{name}")[0] == 204
    gate.touch()
    wait_until(lambda: members(admin, group) == {}, "its place is given up")
