"""A real cluster on this machine: one process for each broker, which tests may kill.

    with Cluster(brokers=3) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
        cluster.kill(2)
        cluster.start(2)

Nodes are numbered from 1. Each is broker and controller, and votes in the metadata quorum, unless
`controllers` asks for nodes that are only that: they are numbered from 101, and the others are only
brokers. `moldau cluster up` is this class with files that are kept.

Invariants: after `close` no process is left; temporary files go with it, unless the caller names a
directory; a node that is started again has its files and its ports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from moldau.errors import MoldauError
from moldau.ids import format_uuid, new_uuid
from moldau.runtime.node_processes import NodeProcess, free_ports
from moldau.runtime.real import RealRuntime

LOCAL: Final = "localhost"
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
EXIT_SECONDS: Final = 5.0
"""A process closes its output a moment before its exit code is known."""
CONTROLLERS_FROM: Final = 101
_CLUSTER_ID: Final = "cluster.id"
_UP: Final = " is up"


class ClusterFailed(MoldauError):
    """A node did not start, or ended by itself; its log says why."""


class Cluster:
    """See the module. `with Cluster() as cluster`, or `open()` and `close()`."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int = 0,
        directory: str | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        racks: Sequence[str] = (),
    ) -> None:
        """`port` is that of the first broker, the others have the next ones and the controllers
        those behind; None: free ones. `settings` hold for each node, by Kafka's names. `racks` are
        those of the brokers in turn."""
        if brokers < 1:
            raise ClusterFailed("a cluster has one broker or more")
        self.brokers = brokers
        self.controllers = controllers
        self.directory = directory or ""
        self.ports: list[int] = []
        """Of the brokers, then of the controllers."""
        self.own_settings: dict[int, dict[str, str]] = {}
        """Settings of single nodes, over those of all. They hold from a node's next start on."""
        self._is_temporary = directory is None
        self._port = port
        self._settings = dict(settings or {})
        self._racks = racks
        self._runtime = RealRuntime("cluster")
        self._children: dict[int, NodeProcess] = {}
        self._cluster_id = ""

    @property
    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    @property
    def controller_ids(self) -> range:
        """The voters: the brokers, where no node is only a controller."""
        if not self.controllers:
            return self.broker_ids
        return range(CONTROLLERS_FROM, CONTROLLERS_FROM + self.controllers)

    @property
    def node_ids(self) -> tuple[int, ...]:
        """All; controllers first."""
        return tuple(dict.fromkeys((*self.controller_ids, *self.broker_ids)))

    @property
    def bootstrap_servers(self) -> str:
        """For a client: all brokers."""
        return ",".join(self.address_of(each) for each in self.broker_ids)

    def address_of(self, node_id: int) -> str:
        """Where clients reach that broker, or brokers that controller."""
        if node_id in self.broker_ids:
            return f"{LOCAL}:{self.ports[node_id - 1]}"
        return f"{LOCAL}:{self._controller_port(node_id)}"

    def _controller_port(self, node_id: int) -> int:
        return self.ports[self.brokers + node_id - self.controller_ids[0]]

    def log_path_of(self, node_id: int) -> str:
        """The file with the log lines of that node."""
        return f"{self.directory}/node-{node_id}.log"

    def data_of(self, node_id: int) -> str:
        """The directory with the data of that node."""
        return f"{self.directory}/node-{node_id}"

    # Life.

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> None:
        """Start all nodes; they take clients when this returns. ClusterFailed if one does not."""
        self.prepare()
        is_up = False
        try:
            for node_id in self.node_ids:
                self.launch(node_id)
            for node_id in self.node_ids:
                self.await_up(node_id)
            is_up = True
        finally:
            if not is_up:
                self.close()

    def prepare(self) -> None:
        """Choose ports and files, and start nothing."""
        files = self._runtime.files
        if self._is_temporary:
            self.directory = files.temporary_dir("moldau-cluster-")
        files.make_dirs(self.directory)
        count = self.brokers + len(self.controller_ids)
        if self._port is None:
            self.ports = free_ports(count)
        else:
            self.ports = list(range(self._port, self._port + count))
        self._cluster_id = self._known_cluster_id()

    def _known_cluster_id(self) -> str:
        """Kept beside the nodes, so that one that is formatted later joins the same cluster."""
        files, path = self._runtime.files, f"{self.directory}/{_CLUSTER_ID}"
        if files.exists(path):
            return files.read_text(path).strip()
        cluster_id = format_uuid(new_uuid(self._runtime.random))
        files.write_text_atomic(path, f"{cluster_id}\n")
        return cluster_id

    def close(self) -> None:
        """End all nodes in order, and remove what is temporary."""
        running = [each for each in self._children.values() if each.exit_code is None]
        for child in running:
            child.resume()
            child.terminate()
        for child in self._children.values():
            if child.wait(STOP_SECONDS) is None:
                child.kill()
                child.wait(STOP_SECONDS)
        self._children.clear()
        if self._is_temporary and self.directory:
            self._runtime.files.remove_tree(self.directory)

    # Nodes.

    def start(self, node_id: int) -> None:
        """Start a node again; it takes clients when this returns."""
        self.launch(node_id)
        self.await_up(node_id)

    def launch(self, node_id: int) -> None:
        """Start a node, and wait for nothing."""
        known = self._children.get(node_id)
        assert known is None or known.exit_code is not None, f"node {node_id} runs"
        if known is not None:
            known.wait(0)
        self._children[node_id] = NodeProcess(self._words(node_id), self.log_path_of(node_id))

    def await_up(self, node_id: int) -> None:
        """Wait until a node takes clients. ClusterFailed if it does not."""
        child = self._children[node_id]
        line = child.line(START_SECONDS)
        if line is None or _UP not in line:
            code = child.wait(EXIT_SECONDS)
            why = "it did not come up in time" if code is None else f"it ended with code {code}"
            raise ClusterFailed(
                f"node {node_id}: {why}",
                said=self._last_line_of(node_id),
                log=self.log_path_of(node_id),
            )

    def _last_line_of(self, node_id: int) -> str:
        """What the node wrote last: mostly why it ended."""
        files, path = self._runtime.files, self.log_path_of(node_id)
        lines = files.read_text(path).splitlines() if files.exists(path) else []
        return next((line for line in reversed(lines) if line.strip()), "")

    def kill(self, node_id: int) -> None:
        """As `kill -9`: nothing of the process is left when this returns."""
        child = self._children[node_id]
        child.kill()
        child.wait(STOP_SECONDS)

    def stop(self, node_id: int) -> None:
        """A clean stop."""
        child = self._children[node_id]
        child.terminate()
        if child.wait(STOP_SECONDS) is None:
            raise ClusterFailed(f"node {node_id} does not stop", log=self.log_path_of(node_id))

    def pause(self, node_id: int) -> None:
        """Let a node stand still, with its connections open."""
        self._children[node_id].pause()

    def resume(self, node_id: int) -> None:
        """Let it go on."""
        self._children[node_id].resume()

    def process_id(self, node_id: int) -> int:
        """Of its present or last process."""
        return self._children[node_id].pid

    def exit_code(self, node_id: int) -> int | None:
        """None while it runs."""
        return self._children[node_id].exit_code

    def _words(self, node_id: int) -> Sequence[str]:
        voters = ",".join(
            f"{each}@{LOCAL}:{self._controller_port(each)}" for each in self.controller_ids
        )
        roles: list[str] = []
        listeners: list[str] = []
        if node_id in self.broker_ids:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://{LOCAL}:{self.ports[node_id - 1]}")
        if node_id in self.controller_ids:
            roles.append("controller")
            listeners.append(f"CONTROLLER://{LOCAL}:{self._controller_port(node_id)}")
        replicas, in_sync = min(3, self.brokers), min(2, self.brokers)
        settings = {
            "node.id": str(node_id),
            "process.roles": ",".join(roles),
            "listeners": ",".join(listeners),
            "controller.quorum.voters": voters,
            "controller.quorum.bootstrap.servers": "",
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(in_sync),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(in_sync),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(in_sync),
            **self._settings,
            **self.own_settings.get(node_id, {}),
        }
        if self._racks and node_id in self.broker_ids:
            settings["broker.rack"] = self._racks[(node_id - 1) % len(self._racks)]
        words = ["broker", "start", "--data", self.data_of(node_id)]
        words += ["--cluster-id", self._cluster_id]
        for name, value in settings.items():
            words += ["--set", f"{name}={value}"]
        return words
