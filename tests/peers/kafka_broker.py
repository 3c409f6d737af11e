"""A real Apache Kafka broker for tests and benches: KRaft, loopback, one node unless told to join.

    with KafkaBroker.started(fetch_or_skip(), folder) as broker:
        broker.bootstrap_servers            # "127.0.0.1:41234"
        broker.tool("org.apache.kafka.tools.TopicCommand", "--list")

Tests take the fixture `kafka_broker`: one broker a test session, whoever imports it:

    from tests.peers.kafka_broker import kafka_broker as kafka_broker

Invariants: a broker that was started is stopped by its own process id and no other; `started` ends
within its time limit, with the last lines of the broker's log where it does not come up; "up" means
that it has answered Metadata with itself in it, not only that a port is open.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from moldau.ids import format_uuid
from moldau.protocol.connection import ClientConnection
from moldau.protocol.messages.metadata import MetadataRequest, MetadataResponse
from moldau.runtime.node_processes import free_ports
from tests.peers.apache_kafka import SHORT_JVM, ApacheKafka, fetch_or_skip
from tests.peers.held_back import asked_for_ms, held_back
from tests.peers.session_server import of_session

HOST: Final = "127.0.0.1"
NODE_ID: Final = 1
# What a test wants of a JVM: to be up soon and to need little.
SMALL_JVM: Final = (*SHORT_JVM, "-Xshare:auto")
TOOL_JVM: Final = ("-Xmx256m", *SMALL_JVM)
# What Kafka's own start script sets: for benches.
SERVER_JVM: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
)

_METADATA_VERSION: Final = 8
_POLL_S: Final = 0.05
_ANSWER_TIMEOUT_S: Final = 5.0
_STOP_TIMEOUT_S: Final = 30.0
_PORT_ATTEMPTS: Final = 3
_LOG_LEVEL_FILE: Final = """\
rootLogger.level = WARN
rootLogger.appenderRef.stderr.ref = STDERR
appender.console.type = Console
appender.console.name = STDERR
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d] %p %m (%c)%n
"""


class BrokerFailed(Exception):
    """Kafka's broker did not come up, or did not go down; the text ends with its last words."""


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """What a broker is started with; `properties` win over the ones that are made here."""

    heap: str = "384m"
    jvm: Sequence[str] = SMALL_JVM
    properties: Mapping[str, str] = field(default_factory=dict)
    start_timeout_s: float = 90.0
    node_id: int = NODE_ID
    # The node that is this one's controller; else it is its own.
    joins: KafkaBroker | None = None
    # For each step of following its controller.
    behind_ms: int = field(default_factory=asked_for_ms)


class KafkaBroker:
    """One node of Apache Kafka, its files in `folder`: broker and controller in one process, or a
    broker only where it joins another node."""

    def __init__(self, kafka: ApacheKafka, folder: Path, options: BrokerOptions) -> None:
        self.kafka = kafka
        self.folder = folder
        self.options = options
        # Kafka's tools would take an id that begins with a dash for an option.
        own = format_uuid(b"\x4b" + secrets.token_bytes(15))
        self.cluster_id: str = own if options.joins is None else options.joins.cluster_id
        self.port = 0
        self.controller_port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def started(
        cls, kafka: ApacheKafka, folder: Path, options: BrokerOptions | None = None
    ) -> Iterator[KafkaBroker]:
        """A broker that is up; stopped at the end, its files left where they are."""
        broker = cls(kafka, folder, options or BrokerOptions())
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()

    @property
    def bootstrap_servers(self) -> str:
        """Where clients find it."""
        return f"{HOST}:{self.port}"

    @property
    def data(self) -> Path:
        """Its log directory."""
        return self.folder / "data"

    @property
    def pid(self) -> int:
        """The process of the broker that runs."""
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The end of what it has logged."""
        path = self.folder / "broker.log"
        return path.read_text(encoding="utf-8", errors="replace")[-3000:] if path.exists() else ""

    def start(self) -> None:
        """Starts it on its folder, formatted if need be, and waits until it answers.

        A free port is only free until somebody takes it, so a first start that loses one tries
        others. Later starts keep the ports, as clients know them.
        """
        is_first = not self.port
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            self.spawn()
            try:
                self.wait_until_ready()
            except BrokerFailed as failed:
                self.kill()
                if is_first and attempt < _PORT_ATTEMPTS and "already in use" in str(failed):
                    self.port = 0
                    continue
                raise
            return

    def spawn(self) -> None:
        """As `start`, but returns as soon as the process runs."""
        assert self._process is None, "the broker runs already"
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.port:
            self.port, self.controller_port = free_ports(2)
        self._write_properties()
        if not (self.data / "meta.properties").exists():
            self._format()
        command = [
            *self.kafka.command(
                f"-Xmx{self.options.heap}",
                f"-Xms{self.options.heap}",
                *self.options.jvm,
                f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            ),
            "kafka.Kafka",
            str(self.folder / "server.properties"),
        ]
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - Kafka, by the java that was found
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def wait_until_ready(self) -> None:
        """Returns when it has answered; BrokerFailed when it ends or takes too long."""
        process = self._process
        assert process is not None, "the broker was not started"
        deadline = time.monotonic() + self.options.start_timeout_s
        while True:
            code = process.poll()
            if code is not None:
                raise BrokerFailed(f"it ended with {code}: {self.last_words}")
            with suppress(OSError):
                if any(
                    each.node_id == self.options.node_id for each in ask_metadata(self.port).brokers
                ):
                    return
            if time.monotonic() > deadline:
                seconds = self.options.start_timeout_s
                raise BrokerFailed(f"not ready in {seconds} s: {self.last_words}")
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_S)

    def stop(self) -> None:
        """A clean stop; killed if it takes too long. Fine when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailed(
                f"it did not stop in {_STOP_TIMEOUT_S} s: {self.last_words}"
            ) from None

    def kill(self) -> None:
        """kill -9; the data directory is left as it is."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def tool(self, main: str, *arguments: str, input_text: str = "", timeout_s: float = 120) -> str:
        """What one of Kafka's tools prints against this broker; see `run_tool`."""
        return run_tool(
            self.kafka,
            main,
            "--bootstrap-server",
            self.bootstrap_servers,
            *arguments,
            input_text=input_text,
            timeout_s=timeout_s,
        )

    def _write_properties(self) -> None:
        first = self.options.joins or self
        listeners = f"PLAINTEXT://{HOST}:{self.port}"
        if first is self:
            listeners += f",CONTROLLER://{HOST}:{self.controller_port}"
        voter = f"{first.options.node_id}@{HOST}:{first.controller_port}"
        properties = {
            "process.roles": "broker,controller" if first is self else "broker",
            "node.id": str(self.options.node_id),
            "controller.quorum.voters": voter,
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.options.properties,
        }
        text = "".join(f"{name}={value}\n" for name, value in properties.items())
        (self.folder / "server.properties").write_text(text, encoding="utf-8")
        logging = _LOG_LEVEL_FILE + held_back(self.folder, self.options.behind_ms)
        (self.folder / "log4j2.properties").write_text(logging, encoding="utf-8")

    def _format(self) -> None:
        settings = str(self.folder / "server.properties")
        run_tool(
            self.kafka, "kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", settings
        )


def ask_metadata(port: int, timeout_s: float = _ANSWER_TIMEOUT_S) -> MetadataResponse:
    """The brokers of the cluster behind that port, asked over a plain socket; OSError if it does
    not answer."""
    connection = ClientConnection("moldau-tests")
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    with socket.create_connection((HOST, port), timeout=timeout_s) as stream:
        stream.sendall(b"".join(map(bytes, connection.send(request, _METADATA_VERSION))))
        with stream.makefile("rb") as reader:
            size = reader.read(4)
            frame = reader.read(int.from_bytes(size, "big")) if len(size) == 4 else b""
    if not frame:
        raise ConnectionResetError("the broker closed the connection")
    response = connection.receive(memoryview(frame)).response
    assert isinstance(response, MetadataResponse)
    return response


def run_tool(
    kafka: ApacheKafka,
    main: str,
    *arguments: str,
    input_text: str = "",
    timeout_s: float = 120,
    jvm: Sequence[str] = TOOL_JVM,
) -> str:
    """What a main class of Kafka prints; RuntimeError with its complaint if it does not end well.

    `main` is the full name, such as org.apache.kafka.tools.GetOffsetShell (protocol.md 5 of the
    design lists them).
    """
    with tempfile.TemporaryDirectory(prefix="kafka-tool-") as scratch:
        logging = Path(scratch) / "log4j2.properties"
        logging.write_text(_LOG_LEVEL_FILE, encoding="utf-8")
        command = [
            *kafka.command(*jvm, f"-Dlog4j2.configurationFile={logging}"),
            main,
            *arguments,
        ]
        done = subprocess.run(  # noqa: S603 - Kafka's own class, run by the java that was found
            command,
            input=input_text,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
    if done.returncode != 0:
        raise RuntimeError(
            f"{main} ended with {done.returncode}: {done.stdout}{done.stderr[-2000:]}"
        )
    return done.stdout


_SHARED = pytest.StashKey[KafkaBroker]()


@pytest.fixture(scope="session")
def kafka_broker(request: pytest.FixtureRequest, tmp_path_factory: Any) -> KafkaBroker:
    """The session's Apache Kafka; the test is skipped with the reason where it cannot be had."""
    return of_session(
        request,
        _SHARED,
        lambda: KafkaBroker(
            fetch_or_skip(), tmp_path_factory.mktemp("apache-kafka"), BrokerOptions()
        ),
    )
