"""Sources write each record exactly once, whatever is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Consumer
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, command, wait_until
from tests.connect.worker.test_end_to_end import TEXT, Scene, environment, numbers, scene

__all__ = ["environment", "scene"]

pytestmark = pytest.mark.real

PAGE = Path(__file__).parents[3] / "docs" / "exactly-once.md"
ENABLED = {"exactly_once_source_support": "enabled"}


def committed(bootstrap: str, topic: str) -> list[str]:
    """The committed values of a topic, from its start to its end."""
    found: list[str] = []
    settings = {
        "bootstrap.servers": bootstrap,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }
    with Consumer(settings) as consumer:
        places = consumer.partitions(topic)
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        while any((consumer.position(place) or 0) < end for place, end in ends.items()):
            for part in consumer.poll(1.0):
                found += [record.value.decode() for record in part.records]
    return found


def every(tasks: int, count: int) -> list[str]:
    return sorted(f"{task}:{number}" for task in range(tasks) for number in range(count))


def stored(worker: Worker, name: str) -> list[Any]:
    _, body = worker.ask("GET", f"/connectors/{name}/offsets")
    return sorted(body["offsets"], key=str)


def wait_for_records(broker: SyncEmbeddedBroker, topic: str, count: int) -> None:
    bootstrap = broker.bootstrap_servers
    wait_until(lambda: len(committed(bootstrap, topic)) >= count, f"{count} records are committed")


def at(tasks: int, count: int) -> list[Any]:
    return [{"partition": {"task": str(task)}, "offset": {"next": count}} for task in range(tasks)]


def test_killed_tasks_write_each_record_once(scene: Scene) -> None:
    with scene.worker(**ENABLED) as worker:
        worker.create("numbers", {**numbers(scene.name, 150, pause_ms="10"), "tasks.max": "2"})
        for kill in range(1, 4):
            wait_for_records(scene.broker, scene.name, kill * 60)
            for pid in worker.task_pids():
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: stored(worker, "numbers") == at(2, 150), "all is written")

        assert sorted(committed(scene.broker.bootstrap_servers, scene.name)) == every(2, 150)
        assert worker.ask("GET", "/connectors/numbers/status")[1]["type"] == "source"
        assert worker.stop() == 0


def block(language: str) -> str:
    """The page's first block in this language below "In Connect"."""
    text = PAGE.read_text(encoding="utf-8").partition("## In Connect")[2]
    return text.partition(f"```{language}\n")[2].partition("```")[0]


def test_the_worker_of_the_page_is_killed_and_writes_each_line_once(
    moldau_broker: SyncEmbeddedBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders.json").write_text(block("json"), encoding="utf-8")
    words = block("sh").split()
    assert words[:2] == ["moldau", "connect"]
    words += ["--listen", "127.0.0.1:0", "--set", "offset.storage.partitions=1"]
    words += ["--set", f"value.converter={TEXT}", "--set", "errors.restart.backoff.ms=100"]
    environment = {"MOLDAU_BOOTSTRAP": moldau_broker.bootstrap_servers}
    lines, count = Path("orders.txt"), 0
    for _ in range(2):
        with command(*words[2:], environment=environment) as worker:
            append(lines, count, 5_000)
            wait_for_records(moldau_broker, "orders", count + 1)
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
    found = committed(moldau_broker.bootstrap_servers, "orders")
    assert sorted(found) == sorted(f"line {number}" for number in range(count))


def append(file: Path, start: int, count: int) -> None:
    with file.open("a") as opened:
        opened.writelines(f"line {number}\n" for number in range(start, start + count))


def is_at(worker: Worker, offset: dict[str, Any]) -> bool:
    return any(each["offset"].items() >= offset.items() for each in stored(worker, "orders"))
