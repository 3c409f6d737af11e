"""Java's worker takes over what ours has left in the internal topics, and the reverse.

Both use one group and one set of topics, one after the other. Each finds the connectors, their
target states and offsets as the other left them, and goes on: no line is lost, none is doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.committed import committed, read
from tests.connect.processes import Worker, command, wait_until
from tests.connect.transcripts.conversation import SINK, SOURCE
from tests.connect.transcripts.java_worker import JSON, java_worker
from tests.peers.apache_kafka import WITH_CONNECTORS, ApacheKafka, fetch_or_skip

pytestmark = [pytest.mark.real, pytest.mark.deep]

TEXT = "org.apache.kafka.connect.storage.StringConverter"
STARTS_S = 180.0
LINES = 50

Start = Callable[[], AbstractContextManager[Worker]]


class Cluster:
    """Connectors over the files of a folder, in one set of internal topics."""

    def __init__(self, broker: SyncEmbeddedBroker, name: str, folder: Path) -> None:
        self.bootstrap = broker.bootstrap_servers
        self.name = name
        self.folder = folder
        self.lines = folder / "lines"
        self.out = folder / "out"
        self.source, self.paused, self.stopped = "from", "paused", "stopped"
        self.sink = f"{name}-to"
        """A group of its own: tests share the broker."""
        self.count = 0
        self.support: dict[str, str] = {}
        """What both are told of exactly-once sources."""

    @contextmanager
    def ours(self) -> Iterator[Worker]:
        """Until its orderly end."""
        settings = {
            "group.id": self.name,
            "config.storage.topic": f"{self.name}-configs",
            "offset.storage.topic": f"{self.name}-offsets",
            "status.storage.topic": f"{self.name}-status",
            "offset.flush.interval.ms": "200",
            "key.converter": JSON,
            "value.converter": JSON,
            **self.support,
        }
        words = [word for pair in settings.items() for word in ("--set", "=".join(pair))]
        start = ("start", "--bootstrap", self.bootstrap, "--listen", "127.0.0.1:0", *words)
        with command(*start, environment={}) as worker:
            yield worker
            assert worker.stop() == 0

    @contextmanager
    def java(self, kafka: ApacheKafka) -> Iterator[Worker]:
        """Until its orderly end."""
        with java_worker(kafka, self.bootstrap, self.folder, self.name, self.support) as worker:
            yield worker
            worker.process.terminate()
            assert worker.process.wait(STARTS_S) in (0, 143)

    def write(self) -> list[str]:
        """More lines for the source; all that the sink is to have then."""
        with self.lines.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(self.count, self.count + LINES))
        self.count += LINES
        return [f"line {number}" for number in range(self.count)]

    def copied(self) -> list[str]:
        """What the sink has written."""
        return self.out.read_text().splitlines() if self.out.exists() else []

    def create(self, worker: Worker) -> None:
        """A source and a sink that copy lines, and a source in each other target state."""
        text = {"key.converter": TEXT, "value.converter": TEXT, "tasks.max": "1"}
        source = {"connector.class": SOURCE, "file": str(self.lines), "topic": self.name, **text}
        sink = {"connector.class": SINK, "file": str(self.out), "topics": self.name, **text}
        worker.create(self.source, source)
        worker.create(self.sink, sink)
        for name in (self.paused, self.stopped):
            worker.create(name, {**source, "file": str(self.folder / name)})
            worker.wait_for(name, "RUNNING", "RUNNING")
        assert worker.ask("PUT", "/connectors/paused/pause")[0] == 202
        assert worker.ask("PUT", "/connectors/stopped/stop")[0] == 204


def left_by(worker: Worker) -> dict[str, Any]:
    """What the next worker has to find."""
    configs = {name: worker.ask("GET", f"/connectors/{name}/config")[1]
               for name in worker.ask("GET", "/connectors")[1]}  # fmt: skip
    return {"configs": configs, "offsets": {name: offsets(worker, name) for name in configs}}


def offsets(worker: Worker, name: str) -> list[tuple[Any, Any]]:
    """Source or sink; our source also remembers the file's inode."""
    status, body = worker.ask("GET", f"/connectors/{name}/offsets")
    assert status == 200, body
    return [
        (each["partition"], {k: v for k, v in each["offset"].items() if k != "inode"})
        for each in body["offsets"]
    ]


def check_states(worker: Worker, cluster: Cluster) -> None:
    """As `Cluster.create` left them."""
    for name in (cluster.source, cluster.sink):
        wait_for(worker, name, "RUNNING", "RUNNING")
    wait_for(worker, "paused", "PAUSED", "PAUSED")
    wait_for(worker, "stopped", "STOPPED")


def wait_for(worker: Worker, name: str, *states: str) -> None:
    """With patience for a JVM. The states must be of this very worker."""
    me = worker.url.removeprefix("http://")

    def holds() -> bool:
        status, body = worker.ask("GET", f"/connectors/{name}/status")
        parts = [body["connector"], *body["tasks"]] if status == 200 else []
        return [(each["state"], each["worker_id"]) for each in parts] == [(s, me) for s in states]

    wait_until(holds, f"{name} is {states}", STARTS_S)


def settle(worker: Worker, cluster: Cluster, wanted: list[str]) -> None:
    """All is copied, and the offsets say so."""
    wait_until(lambda: cluster.copied() == wanted, "all lines are copied", STARTS_S)
    size = cluster.lines.stat().st_size
    partition = {"kafka_topic": cluster.name, "kafka_partition": 0}
    positions = [({"filename": str(cluster.lines)}, {"position": size})]
    consumed = [(partition, {"kafka_offset": len(wanted)})]
    expected: dict[str, list[tuple[Any, Any]]] = {cluster.source: positions}
    if not cluster.support:  # else the ends of transactions have offsets, too
        expected[cluster.sink] = consumed
    for name, stored in expected.items():
        wait_until(partial(stands_at, worker, name, stored), f"{name} is at {stored}", STARTS_S)


def stands_at(worker: Worker, name: str, stored: list[tuple[Any, Any]]) -> bool:
    return offsets(worker, name) == stored


def hand_over(cluster: Cluster, first: Start, *others: Start) -> None:
    """The first makes everything, and each of the others goes on."""
    with first() as worker:
        cluster.create(worker)
        settle(worker, cluster, cluster.write())
        check_states(worker, cluster)
        left = left_by(worker)
    assert len(left["configs"]) == 4
    for start in others:
        with start() as worker:
            check_states(worker, cluster)
            assert left_by(worker) == left
            settle(worker, cluster, cluster.write())
            for change, state in (("resume", "RUNNING"), ("pause", "PAUSED")):
                assert worker.ask("PUT", f"/connectors/{cluster.paused}/{change}")[0] == 202
                wait_for(worker, cluster.paused, state, state)
            left = left_by(worker)


@pytest.fixture
def cluster(moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path) -> Cluster:
    for name in ("lines", "paused", "stopped"):
        (tmp_path / name).touch()
    return Cluster(moldau_broker, moldau_topic, tmp_path)


def test_javas_worker_goes_on_where_ours_has_stopped_and_ours_again(cluster: Cluster) -> None:
    kafka = fetch_or_skip(WITH_CONNECTORS)
    hand_over(cluster, cluster.ours, lambda: cluster.java(kafka), cluster.ours)


def test_ours_goes_on_where_javas_worker_has_stopped(cluster: Cluster) -> None:
    kafka = fetch_or_skip(WITH_CONNECTORS)
    hand_over(cluster, lambda: cluster.java(kafka), cluster.ours)


def counts(cluster: Cluster) -> list[bytes]:
    """The task-count records of the source, in their order."""
    return [
        each.value or b""
        for each in read(cluster.bootstrap, f"{cluster.name}-configs")
        if each.key == b"tasks-fencing-from"
    ]


@pytest.mark.parametrize("is_javas_first", [False, True])
def test_exactly_once_sources_go_on_at_the_others_worker(
    cluster: Cluster, is_javas_first: bool
) -> None:
    kafka = fetch_or_skip(WITH_CONNECTORS)
    cluster.support = {"exactly.once.source.support": "enabled"}
    java: Start = lambda: cluster.java(kafka)  # noqa: E731
    hand_over(cluster, *((java, cluster.ours, java) if is_javas_first else (cluster.ours, java)))

    values = [line.strip() for line in committed(cluster.bootstrap, cluster.name)]
    assert values == [f"line {number}" for number in range(cluster.count)]
    assert set(counts(cluster)) == {b'{"task-count":1}'}


@pytest.mark.parametrize("is_java_leader", [False, True])
def test_each_has_the_other_fence_its_older_tasks(cluster: Cluster, is_java_leader: bool) -> None:
    """Both are in one group: one leads, and the other starts a task and has it fence the older."""
    kafka = fetch_or_skip(WITH_CONNECTORS)
    cluster.support = {
        "exactly.once.source.support": "enabled",
        "scheduled.rebalance.max.delay.ms": "0",
    }
    names = ("one", "two")
    with ExitStack() as stack:
        if is_java_leader:
            leader = stack.enter_context(cluster.java(kafka))
            other = stack.enter_context(cluster.ours())
        else:
            leader = stack.enter_context(cluster.ours())
            other = stack.enter_context(cluster.java(kafka))
        wanted = []
        for name in names:
            file = cluster.folder / name
            file.write_text(f"{name}\n")
            wanted.append(name)
            config = {"connector.class": SOURCE, "file": str(file), "topic": cluster.name,
                      "key.converter": TEXT, "value.converter": TEXT, "tasks.max": "1"}  # fmt: skip
            leader.create(name, config)
        workers = {each.url.removeprefix("http://") for each in (leader, other)}

        def owners() -> set[str]:
            return {
                task["worker_id"]
                for name in names
                for task in leader.ask("GET", f"/connectors/{name}/status")[1].get("tasks", ())
                if task["state"] == "RUNNING"
            }

        wait_until(lambda: owners() == workers, "each has a task", STARTS_S)
        for name in names:
            with (cluster.folder / name).open("a") as opened:
                opened.write(f"{name} again\n")
            wanted.append(f"{name} again")
        wait_until(
            lambda: len(committed(cluster.bootstrap, cluster.name)) >= len(wanted),
            "all is written",
            STARTS_S,
        )
    assert sorted(committed(cluster.bootstrap, cluster.name)) == sorted(wanted)
