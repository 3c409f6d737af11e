"""Sources write each record exactly once, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Admin, NewTopic, Producer
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.committed import committed, read, wait_for_records
from tests.connect.processes import Worker, command, wait_until
from tests.connect.worker.scene import TEXT, Scene, environment, numbers, scene

__all__ = ["environment", "scene"]

pytestmark = pytest.mark.real

PAGE = Path(__file__).parents[3] / "docs" / "exactly-once.md"
ENABLED = {"exactly_once_source_support": "enabled"}


def every(tasks: int, count: int) -> list[str]:
    return sorted(f"{task}:{number}" for task in range(tasks) for number in range(count))


def stored(worker: Worker, name: str) -> list[Any]:
    _, body = worker.ask("GET", f"/connectors/{name}/offsets")
    return sorted(body["offsets"], key=str)


def at(tasks: int, count: int) -> list[Any]:
    return [{"partition": {"task": str(task)}, "offset": {"next": count}} for task in range(tasks)]


def test_killed_tasks_write_each_record_once(scene: Scene) -> None:
    bootstrap, name = scene.broker.bootstrap_servers, scene.name
    with ExitStack() as stack:
        leave_open(stack, bootstrap, name)
        worker = stack.enter_context(scene.worker(**ENABLED))
        worker.create("numbers", {**numbers(name, 150, pause_ms="10"), "tasks.max": "2"})
        for kill in range(1, 4):
            wait_for_records(scene.broker, name, kill * 60)
            for pid in worker.task_pids():
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: stored(worker, "numbers") == at(2, 150), "all is written")

        assert sorted(committed(bootstrap, name)) == every(2, 150)
        assert worker.stop() == 0


def leave_open(stack: ExitStack, bootstrap: str, name: str) -> None:
    """Leave the transaction of a killed task open: the next worker must not wait for its end."""
    topic = NewTopic(f"{name}-offsets", 2, 1, {"cleanup.policy": "compact"})
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([topic])
    killed = Producer(
        bootstrap_servers=bootstrap,
        transactional_id=f"{name}-numbers-0",
        transaction_timeout_ms=600_000,
    )
    stack.enter_context(killed)
    killed.begin_transaction()
    for partition in range(2):
        killed.send(f"{name}-offsets", b'{"next":1}', key=b"?", partition=partition).result()


def is_fenced(producer: Producer, topic: str) -> bool:
    """Whether what it sends in its open transaction is refused."""
    try:
        producer.send(topic, b"of a zombie", partition=0)
        producer.commit_transaction()
    except KafkaError as error:
        return error.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    return False


def test_tasks_and_leaders_of_earlier_generations_cannot_write(scene: Scene) -> None:
    bootstrap, name = scene.broker.bootstrap_servers, scene.name
    slow = {**ENABLED, "scheduled_rebalance_max_delay_ms": "0"}
    with ExitStack() as stack:

        def zombie(transactional_id: str) -> Producer:
            opened = Producer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
            producer = stack.enter_context(opened)
            producer.begin_transaction()
            return producer

        leader = zombie(f"connect-cluster-{name}")
        first = stack.enter_context(scene.worker(**slow))
        second = stack.enter_context(scene.worker(**slow))
        config = {**numbers(name, 50), "tasks.max": "3"}
        second.create("numbers", config)
        wait_until(lambda: stored(first, "numbers") == at(3, 50), "all is written")
        assert is_fenced(leader, f"{name}-configs")
        assert task_count(bootstrap, f"{name}-configs") == {"task-count": 3}

        # What a worker that is cut off may still run: a task that is no longer there afterwards.
        old = zombie(f"{name}-numbers-2")
        status, _ = first.ask(
            "PUT", "/connectors/numbers/config", {**config, "tasks.max": "2", "count": "60"}
        )
        assert status == 200
        wait_until(
            lambda: all(each in stored(second, "numbers") for each in at(2, 60)),
            "both of the new tasks have written",
        )

        assert is_fenced(old, name)
        assert task_count(bootstrap, f"{name}-configs") == {"task-count": 2}
    found = committed(bootstrap, name)
    assert sorted(found) == sorted([*every(2, 60), *(f"2:{number}" for number in range(50))])


def task_count(bootstrap: str, topic: str) -> Any:
    """The last task-count record."""
    records = [each for each in read(bootstrap, topic) if each.key == b"tasks-fencing-numbers"]
    return json.loads(records[-1].value)


def test_offsets_are_changed_after_the_tasks_are_fenced(scene: Scene) -> None:
    bootstrap, name = scene.broker.bootstrap_servers, scene.name
    with scene.worker(**ENABLED) as worker:
        worker.create("numbers", {**numbers(name, 20), "tasks.max": "2"})
        wait_until(lambda: stored(worker, "numbers") == at(2, 20), "all is written")
        assert worker.ask("PUT", "/connectors/numbers/stop")[0] == 204
        worker.wait_for("numbers", "STOPPED")
        change = {"offsets": [{"partition": {"task": "0"}, "offset": {"next": 10}}]}
        with Producer(bootstrap_servers=bootstrap, transactional_id=f"{name}-numbers-1") as old:
            old.begin_transaction()
            answer = worker.ask("PATCH", "/connectors/numbers/offsets", change)
            assert answer[0] == 200, answer
            assert is_fenced(old, name)
        assert worker.ask("PUT", "/connectors/numbers/resume")[0] == 202
        wait_until(lambda: stored(worker, "numbers") == at(2, 20), "it went on from there")
    wanted = [*every(2, 20), *(f"0:{number}" for number in range(10, 20))]
    assert sorted(committed(bootstrap, name)) == sorted(wanted)


@pytest.fixture
def own_broker() -> Iterator[SyncEmbeddedBroker]:
    """Pages name their topic `orders`: on the broker of all tests another page may write to it."""
    with SyncEmbeddedBroker() as broker:
        yield broker


def block(language: str) -> str:
    """The page's first block in this language below "In Connect"."""
    text = PAGE.read_text(encoding="utf-8").partition("## In Connect")[2]
    return text.partition(f"```{language}\n")[2].partition("```")[0]


def test_the_worker_of_the_page_is_killed_and_writes_each_line_once(
    own_broker: SyncEmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders.json").write_text(block("json"), encoding="utf-8")
    words = block("sh").split()
    assert words[:2] == ["moldau", "connect"]
    words += ["--listen", "127.0.0.1:0", "--set", "offset.storage.partitions=1"]
    words += ["--set", f"value.converter={TEXT}", "--set", "errors.restart.backoff.ms=100"]
    environment = {"MOLDAU_BOOTSTRAP": own_broker.bootstrap_servers}
    lines, count = Path("orders.txt"), 0
    for _ in range(2):
        with command(*words[2:], environment=environment) as worker:
            append(lines, count, 5_000)
            wait_for_records(own_broker, "orders", count + 1)
            count += 5_000
            worker.kill()
    with command(*words[2:], environment=environment) as worker:
        append(lines, count, 10)
        count += 10
        end = {"position": lines.stat().st_size}
        wait_until(lambda: is_at(worker, end), "all is written")
        promise = worker.ask("GET", "/connectors/orders/status")[1]["guarantee"]
        assert promise.startswith("exactly-once")
        assert worker.stop() == 0
    found = committed(own_broker.bootstrap_servers, "orders")
    assert sorted(found) == sorted(f"line {number}" for number in range(count))


def append(file: Path, start: int, count: int) -> None:
    with file.open("a") as opened:
        opened.writelines(f"line {number}\n" for number in range(start, start + count))


def is_at(worker: Worker, offset: dict[str, Any]) -> bool:
    return any(each["offset"].items() >= offset.items() for each in stored(worker, "orders"))
