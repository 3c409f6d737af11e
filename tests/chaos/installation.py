"""All that one machine runs for a shop, from files that an older version wrote and read.

A node by its server.properties, a registry, a Connect worker by its worker.properties with two
connectors by their JSON, and a Streams app with its stores. Every process is started by the command
that a user types; which version it is, the environment says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx2

from moldau.client.sync import Admin, Consumer, TopicPartition
from moldau.errors.codes import KafkaError
from moldau.runtime.node_processes import free_ports
from tests.peers.eventually import eventually

LINES: Final = "lines"
COUNTS: Final = "counts"
PARTITIONS: Final = 2
SUBJECT: Final = f"{LINES}-value"
SCHEMA: Final = json.dumps({"type": "record", "name": "Line", "fields": []})
PATIENCE_S: Final = 120.0
ENDS_WITHIN_S: Final = 60.0
_NODE: Final = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://localhost:{broker},CONTROLLER://localhost:{controller}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@localhost:{controller}
log.dirs={folder}/data
num.partitions=2
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
_WORKER: Final = """\
bootstrap.servers=localhost:{broker}
group.id=workers
listeners=http://127.0.0.1:{connect}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic=connect-configs
offset.storage.topic=connect-offsets
status.storage.topic=connect-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.flush.interval.ms=500
connect.file.directories={folder}
"""
_APP: Final = f"""\
from moldau.streams import Streams

app = Streams("counting")
(
    app.stream("{LINES}", str)
    .map_values(lambda line: line.split()[0])
    .group_by(lambda word: word)
    .count(name="counts")
    .changes()
    .to("{COUNTS}")
)
"""
_CONNECTORS: Final = {
    "reader": {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": "{folder}/lines.txt",
        "topic": LINES,
    },
    "writer": {
        "connector.class": "FileStreamSink",
        "tasks.max": "2",
        "file": "{folder}/copy.txt",
        "topics": LINES,
    },
}


class Installation:
    """The files, and the processes while they run."""

    def __init__(self, folder: Path) -> None:
        """Write the files, once; nothing starts yet."""
        folder.mkdir()
        self.folder = folder
        broker, controller, connect, registry = free_ports(4)
        self.servers = f"localhost:{broker}"
        self.rest = f"http://127.0.0.1:{connect}"
        self.registry = f"http://127.0.0.1:{registry}"
        ports = {"broker": broker, "controller": controller, "connect": connect, "folder": folder}
        for name, text in {"server": _NODE, "worker": _WORKER}.items():
            (folder / f"{name}.properties").write_text(text.format(**ports))
        (folder / "counting.py").write_text(_APP)
        (folder / "lines.txt").touch()
        for name, config in _CONNECTORS.items():
            config = {key: value.format(folder=folder) for key, value in config.items()}
            text = json.dumps({"name": name, "config": config})
            (folder / f"{name}.json").write_text(text)

    def run(self, *words: str) -> str:
        """Run a command to its end, and return its output."""
        done = subprocess.run(  # noqa: S603 (our own command)
            [sys.executable, "-m", "moldau", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start all, and stop each process cleanly at the end of the block."""
        start = (
            ("broker", "start", "--config", "server.properties"),
            ("registry", "start", "-b", self.servers, "--listen", self.registry.split("//")[1]),
            ("connect", "start", "--config", "worker.properties"),
            ("streams", "run", "counting:app", "-b", self.servers, "--state", "state"),
        )
        with ExitStack() as processes:
            processes.enter_context(self._process(start[0]))
            eventually(self._has_broker, within_s=PATIENCE_S)
            for topic in (LINES, COUNTS):
                self._make(topic)
            for words in start[1:3]:
                processes.enter_context(self._process(words))
            for address in (f"{self.registry}/subjects", f"{self.rest}/connectors"):
                eventually(partial(answers, address), within_s=PATIENCE_S)
            processes.enter_context(self._process((*start[3], "--workers", "2")))
            yield

    @contextmanager
    def _process(self, words: Sequence[str]) -> Iterator[None]:
        with (self.folder / f"{words[0]}.log").open("a") as log:
            process = subprocess.Popen(  # noqa: S603 (our own command)
                [sys.executable, "-m", "moldau", *words], cwd=self.folder, stdout=log, stderr=log
            )
        is_whole = False
        try:
            yield
            assert process.poll() is None, f"{words} has ended: see {words[0]}.log"
            process.terminate()
            assert process.wait(ENDS_WITHIN_S) == 0, f"{words}: see {words[0]}.log"
            is_whole = True
        finally:
            if not is_whole:
                process.kill()
                process.wait()

    def _has_broker(self) -> bool:
        try:
            with Admin(bootstrap_servers=self.servers) as admin:
                return bool(admin.describe_cluster().brokers)
        except KafkaError:
            return False

    def _make(self, topic: str) -> None:
        with Admin(bootstrap_servers=self.servers) as admin:
            if topic not in {each.name for each in admin.list_topics()}:
                self.run("topic", "create", topic, "-b", self.servers, "--partitions", "2")

    def create_connectors(self) -> None:
        """Post the JSON files of the connectors."""
        for name in _CONNECTORS:
            body = (self.folder / f"{name}.json").read_text()
            eventually(partial(self._is_created, body), within_s=PATIENCE_S)

    def _is_created(self, body: str) -> bool:
        """Whether the worker has taken a connector; one that starts says that it is to be asked
        again."""
        headers = {"Content-Type": "application/json"}
        answer = httpx2.post(f"{self.rest}/connectors", content=body, headers=headers)
        assert answer.status_code in (201, 409), answer.text
        return answer.status_code == 201

    def connector(self, name: str) -> dict[str, Any]:
        """The config of a connector, as the worker has it."""
        found: dict[str, Any] = httpx2.get(f"{self.rest}/connectors/{name}/config").json()
        return found

    def schema_id(self) -> int:
        """Register the schema, and return its id; the same schema has the same id again."""
        answer = httpx2.post(
            f"{self.registry}/subjects/{SUBJECT}/versions",
            json={"schema": SCHEMA},
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        assert answer.status_code == 200, answer.text
        return int(answer.json()["id"])

    def append_lines(self, first: int, count: int) -> None:
        """Add lines to the file that the source connector reads."""
        with (self.folder / "lines.txt").open("a") as file:
            file.writelines(f"word-{n % 3} {n}\n" for n in range(first, first + count))

    def copied(self) -> list[str]:
        """The lines that the sink connector has written."""
        path = self.folder / "copy.txt"
        return path.read_text().splitlines() if path.exists() else []

    def counts(self) -> dict[bytes, int]:
        """The last count of each word that the Streams app has committed."""
        return {key or b"": int(value or b"0") for key, value in committed(self.servers, COUNTS)}


def answers(address: str) -> bool:
    """Whether a server is there, and ready."""
    try:
        return httpx2.get(address, timeout=5).status_code == 200
    except httpx2.HTTPError:
        return False


def committed(servers: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """All committed records of a topic, by key and value."""
    found: list[tuple[bytes | None, bytes | None]] = []
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        where = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        consumer.assign(where)
        ends = consumer.end_offsets(where)
        while any((consumer.position(each) or 0) < ends[each] for each in where):
            found += [(r.key, r.value) for part in consumer.poll(0.5) for r in part.records]
    return found
