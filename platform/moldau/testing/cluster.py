"""A real cluster on this machine: one process for each broker, which tests may kill.

    with Cluster(brokers=3) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all")
        cluster.kill(2)
        cluster.start(2)

Nodes are numbered from 1, unless a `Layout` says otherwise. Each is broker and controller, and
votes in the metadata quorum. With `controllers` there are nodes that are only controllers, numbered
from 101, and the others are only brokers. `moldau cluster up` uses this class, with files that are
kept.

Each has a file `node-N.properties`, with which `moldau broker start --config` starts it by hand.

Invariants: after `close` no process is left, and none outlives this process, however that ends;
its temporary files are removed, unless the caller names a directory; a node that is started again
has its old files and ports; the voters of a directory stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from moldau.runtime.holders import lock_holder
from moldau.runtime.node_processes import NodeProcess, free_ports, monotonic_s, pause_s, stop_all
from moldau.runtime.places import absolute_path
from moldau.runtime.real import RealRuntime
from moldau.runtime.real_files import RealFiles
from moldau.testing.cluster_directory import (
    CONTROLLERS_FROM,
    FOLDER,
    SETTINGS,
    ClusterFailed,
    check_known_nodes,
    kept_cluster_id,
    settings_text,
)

if TYPE_CHECKING:
    from moldau.client.sync import Admin
    from moldau.link.metadata import Partition
    from moldau.testing.cluster_security import ClusterSecurity

T = TypeVar("T")

LOCAL: Final = "localhost"
START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
EXIT_SECONDS: Final = 5.0
"""A process closes its output a moment before its exit code is known."""
_LOOK_SECONDS: Final = 0.1
_UP: Final = " is up"
_LOCK: Final = ".lock"
"""The file of a node's directory that its process locks."""


class Layout(NamedTuple):
    """What brokers have of their own, beside their ports and directories."""

    racks: Sequence[str] = ()
    """The racks of the brokers, in turn."""
    first_id: int = 1
    advertised_host: str | None = None
    """Where clients find the brokers, which then listen at every address of this machine."""
    is_secure: bool = False
    """Clients log in over TLS, nodes show each other certificates, and access rules decide. The
    files are in `secured/` of the cluster's directory."""

    def settings_of(self, broker_id: int) -> dict[str, str]:
        """Return the rack of a broker."""
        if not self.racks:
            return {}
        return {"broker.rack": self.racks[(broker_id - self.first_id) % len(self.racks)]}


class Cluster:
    """A cluster of broker processes: `with Cluster() as cluster`, or `open()` and `close()`."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int = 0,
        directory: str | None = None,
        port: int | None = None,
        settings: Mapping[str, object] | None = None,
        layout: Layout | None = None,
    ) -> None:
        """Keep the options; nothing starts yet. The first broker gets `port`, the other brokers the
        next ones, and the controllers the ports after those; None chooses free ports. `settings`
        apply to every node, by Kafka's names. `layout` has racks, ids and advertised addresses."""
        if brokers < 1:
            raise ClusterFailed("a cluster has one broker or more")
        self.brokers = brokers
        self.controllers = controllers
        self.directory = "" if directory is None else absolute_path(directory)
        self.ports: list[int] = []
        """The ports of the brokers, then of the controllers."""
        self.own_settings: dict[int, dict[str, str]] = {}
        """Settings of single nodes, which override those of all, from a node's next start."""
        self._is_temporary = directory is None
        self._port = port
        self._settings = {name: _text(value) for name, value in (settings or {}).items()}
        self._layout = Layout() if layout is None else layout
        if not 0 <= self._layout.first_id <= CONTROLLERS_FROM - brokers:
            raise ClusterFailed(f"brokers have ids from 0 to {CONTROLLERS_FROM - 1}")
        self._runtime = RealRuntime("cluster")
        self._children: dict[int, NodeProcess] = {}
        self._cluster_id = ""
        self.security: ClusterSecurity | None = None
        """The files of a secure cluster, from `prepare` on."""

    @property
    def broker_ids(self) -> range:
        return range(self._layout.first_id, self._layout.first_id + self.brokers)

    @property
    def controller_ids(self) -> range:
        """The ids of the voters: the brokers, unless some nodes are only controllers."""
        if not self.controllers:
            return self.broker_ids
        return range(CONTROLLERS_FROM, CONTROLLERS_FROM + self.controllers)

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The ids of all nodes, controllers first."""
        return tuple(dict.fromkeys((*self.controller_ids, *self.broker_ids)))

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, for a client."""
        return ",".join(self.address_of(each) for each in self.broker_ids)

    def address_of(self, node_id: int) -> str:
        """Return the address of a broker for clients, or of a controller for brokers."""
        if node_id not in self.node_ids:
            raise _no_node(node_id, self.node_ids)
        if not self.ports:
            raise ClusterFailed("the cluster is not open: `with Cluster(...)`, or `open()` first")
        if node_id in self.broker_ids:
            host = self._layout.advertised_host or LOCAL
            return f"{host}:{self.ports[node_id - self._layout.first_id]}"
        return f"{LOCAL}:{self._controller_port(node_id)}"

    def _controller_port(self, node_id: int) -> int:
        return self.ports[self.brokers + node_id - self.controller_ids[0]]

    def log_path_of(self, node_id: int) -> str:
        """Return the path of the file with the log lines of a node."""
        return f"{self.data_of(node_id)}.log"

    def data_of(self, node_id: int) -> str:
        """Return the directory with the data of a node."""
        return f"{self.directory}/{FOLDER}{node_id}"

    def settings_path_of(self, node_id: int) -> str:
        """Return the path of the file with the settings that a node had at its last start."""
        return f"{self.data_of(node_id)}{SETTINGS}"

    # Start and end.

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
        """Start all nodes; they accept clients on return. Raise ClusterFailed if one does not."""
        self.prepare()
        is_up = False
        try:
            for node_id in self.node_ids:
                self.launch(node_id)
            for node_id in self.node_ids:
                self.await_up(node_id)
            self.finish_up()
            is_up = True
        finally:
            if not is_up:
                self.close()

    def prepare(self) -> None:
        """Choose ports and files, but start nothing. Raise ClusterFailed if the directory belongs
        to a cluster with other voters, or has data of brokers that this cluster would leave out."""
        files = self._runtime.files
        if self._is_temporary:
            self.directory = files.temporary_dir("moldau-cluster-")
        files.make_dirs(self.directory)
        check_known_nodes(files, self.directory, self.broker_ids, self.controller_ids)
        count = self.brokers + len(self.controller_ids)
        if self._layout.is_secure:
            count += self.brokers
        if self._port is None:
            self.ports = free_ports(count)
        else:
            self.ports = list(range(self._port, self._port + count))
        folder = f"{self.directory}/secured"
        if not self._layout.is_secure and files.exists(folder):
            raise ClusterFailed(
                "this cluster is secure, and would be open to all: start it with --secure "
                "(Layout(is_secure=True)), or give another directory",
                directory=self.directory,
            )
        if self._layout.is_secure:
            from moldau.testing.cluster_security import ClusterSecurity

            self.security = ClusterSecurity(self._runtime, folder)
            host = self._layout.advertised_host
            self.security.prepare(self.node_ids, self.bootstrap_servers, host)
        self._cluster_id = kept_cluster_id(files, self.directory, self._runtime.random)

    def finish_up(self) -> None:
        """Add the first user to a secure cluster, unless it has it. The nodes are up."""
        security = self.security
        if security is None:
            return
        inner = ",".join(_inner_address(self, each) for each in self.broker_ids)
        if security.add_admin(self.broker_ids[0], inner):
            for each in self.broker_ids:
                security.await_login(self.address_of(each))

    def close(self) -> None:
        """Stop all nodes cleanly, and remove temporary files."""
        stop_all(self._children.values(), STOP_SECONDS)
        self._children.clear()
        if self._is_temporary and self.directory:
            self._runtime.files.remove_tree(self.directory)

    # Nodes.

    def start(self, node_id: int) -> None:
        """Start a node again; it accepts clients when this returns."""
        self.launch(node_id)
        self.await_up(node_id)

    def launch(self, node_id: int) -> None:
        """Start the process of a node, without waiting until it is up."""
        if node_id not in self.node_ids:
            raise _no_node(node_id, self.node_ids)
        known = self._children.get(node_id)
        if known is not None and known.exit_code is None:
            raise ClusterFailed(f"node {node_id} runs already")
        if known is not None:
            known.wait(0)
        words = self._words(node_id)
        self._children[node_id] = NodeProcess(words, self.log_path_of(node_id), is_leashed=True)

    def await_up(self, node_id: int) -> None:
        """Wait until a node accepts clients. Raise ClusterFailed if it does not."""
        child = self._children[node_id]
        line = child.line(START_SECONDS)
        while line is not None and _UP not in line:  # such as where the metrics are
            line = child.line(START_SECONDS)
        if line is None:
            code = child.wait(EXIT_SECONDS)
            why = "it did not come up in time" if code is None else f"it ended with code {code}"
            raise ClusterFailed(
                f"node {node_id}: {why}",
                said=self.last_line_of(node_id),
                log=(
                    "removed with the temporary directory; name one with directory= to keep it"
                    if self._is_temporary
                    else self.log_path_of(node_id)
                ),
            )
        self._write_settings(node_id)

    def has_come_up(self, node_id: int) -> bool:
        """Whether a launched node accepts clients now. Do not call it again after a True."""
        line = self._children[node_id].line(0)
        is_up = line is not None and _UP in line
        if is_up:
            self._write_settings(node_id)
        return is_up

    def last_line_of(self, node_id: int) -> str:
        """Return the last line of the node's log; mostly it says why the node ended."""
        files, path = self._runtime.files, self.log_path_of(node_id)
        lines = files.read_text(path).splitlines() if files.exists(path) else []
        last = next((line for line in reversed(lines) if line.strip()), "")
        return last.removeprefix("moldau: ").strip()

    def kill(self, node_id: int) -> None:
        """Kill the process of a node, as `kill -9` does; it has ended when this returns."""
        child = self._child(node_id)
        child.kill()
        child.wait(STOP_SECONDS)

    def stop(self, node_id: int) -> None:
        """Stop a node cleanly. Raise ClusterFailed if it does not stop in time."""
        child = self._child(node_id)
        child.terminate()
        if child.wait(STOP_SECONDS) is None:
            raise ClusterFailed(f"node {node_id} does not stop", log=self.log_path_of(node_id))

    def begin_stop(self, node_id: int) -> None:
        """Ask a node to stop, as `stop` does, without waiting for its end."""
        self._child(node_id).terminate()

    def pause(self, node_id: int) -> None:
        """Pause the process of a node; its connections stay open."""
        self._child(node_id).pause()

    def resume(self, node_id: int) -> None:
        """Continue the paused process of a node."""
        self._child(node_id).resume()

    def process_id(self, node_id: int) -> int:
        """Return the process id of a node's present or last process."""
        return self._child(node_id).pid

    def exit_code(self, node_id: int) -> int | None:
        """Return the exit code of a node's process; None while it runs."""
        return self._child(node_id).exit_code

    def _child(self, node_id: int) -> NodeProcess:
        """Return the present or last process of a node."""
        child = self._children.get(node_id)
        if child is None:
            raise _no_node(node_id, self._children)
        return child

    # The state of the cluster.

    def controller(self) -> int:
        """Return the id of the node that leads the metadata quorum."""
        return self._asked(lambda admin: admin.describe_quorum().leader_id)

    def leader_of(self, topic: str, index: int = 0) -> int:
        """Return the id of the broker that leads a partition; -1 if it has no leader."""
        return self._asked(lambda admin: _partition(admin, topic, index).leader)

    def await_in_sync(
        self, topic: str, replicas: Iterable[int] = (), index: int = 0, *, within: float = 60
    ) -> None:
        """Wait until the in-sync replicas of a partition are exactly `replicas`, or all its
        replicas if none are given. Raise ClusterFailed if that takes longer than `within`
        seconds."""
        wanted = frozenset(replicas)

        def wait(admin: Admin) -> None:
            until_s = monotonic_s() + within
            while True:
                found = _partition(admin, topic, index)
                if frozenset(found.isr) == (wanted or frozenset(found.replicas)):
                    return
                if monotonic_s() > until_s:
                    raise ClusterFailed(
                        f"{topic}-{index} is not in sync",
                        replicas=list(found.replicas),
                        in_sync=list(found.isr),
                    )
                pause_s(_LOOK_SECONDS)

        self._asked(wait)

    def _asked(self, question: Callable[[Admin], T]) -> T:
        """Return what `question` returns for an admin client of the brokers whose processes run."""
        from moldau.client.sync import Admin

        alive = [each for each in self.broker_ids if each in self._children]
        alive = [each for each in alive if self._children[each].exit_code is None]
        if not alive:
            raise ClusterFailed("no broker of the cluster runs")
        servers = {"bootstrap.servers": ",".join(map(self.address_of, alive))}
        if self.security is not None:
            servers = {**self.security.client(), **servers}
        with Admin(servers) as admin:
            return question(admin)

    def _settings_of(self, node_id: int) -> dict[str, str]:
        voters = ",".join(
            f"{each}@{LOCAL}:{self._controller_port(each)}" for each in self.controller_ids
        )
        roles: list[str] = []
        listeners: list[str] = []
        place: dict[str, str] = {}
        if node_id in self.broker_ids:
            place = self._layout.settings_of(node_id)
            roles.append("broker")
            found = self._layout.advertised_host
            listeners += _broker_listeners(self, node_id, LOCAL if found is None else "")
            if found is not None:
                place["advertised.listeners"] = ",".join(_broker_listeners(self, node_id, found))
                if self.security is None:
                    place["moldau.listeners.insecure"] = "true"  # every address was asked for
        if node_id in self.controller_ids:
            roles.append("controller")
            listeners.append(f"CONTROLLER://{LOCAL}:{self._controller_port(node_id)}")
        replicas, in_sync = min(3, self.brokers), min(2, self.brokers)
        return {
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
            **place,
            **({} if self.security is None else self.security.settings_of(node_id, self.node_ids)),
            **self._settings,
            **self.own_settings.get(node_id, {}),
        }

    def _words(self, node_id: int) -> Sequence[str]:
        words = ["broker", "start", "--data", self.data_of(node_id)]
        words += ["--cluster-id", self._cluster_id]
        for name, value in self._settings_of(node_id).items():
            words += ["--set", f"{name}={value}"]
        return words

    def _write_settings(self, node_id: int) -> None:
        """Write the settings file of a node that is up: the directory is then surely its own."""
        text = settings_text(self.data_of(node_id), self._settings_of(node_id))
        self._runtime.files.write_text_atomic(self.settings_path_of(node_id), text)


def _inner_address(cluster: Cluster, broker_id: int) -> str:
    """Return the address of a secure broker for other brokers."""
    before = cluster.brokers + len(cluster.controller_ids)
    return f"{LOCAL}:{cluster.ports[before + broker_id - cluster.broker_ids[0]]}"


def _broker_listeners(cluster: Cluster, broker_id: int, host: str) -> list[str]:
    """Return the listeners of a broker. `host` is where clients find it."""
    address = f"{host}:{cluster.ports[broker_id - cluster.broker_ids[0]]}"
    if cluster.security is None:
        return [f"PLAINTEXT://{address}"]
    return [f"SASL_SSL://{address}", f"BROKER://{_inner_address(cluster, broker_id)}"]


def _no_node(node_id: int, known: Iterable[int]) -> ClusterFailed:
    ids = ", ".join(map(str, known)) or "none, as the cluster is not open"
    return ClusterFailed(f"there is no node {node_id}; there are {ids}")


def _text(value: object) -> str:
    """Return the value as it stands in a file of settings."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _partition(admin: Admin, topic: str, index: int) -> Partition:
    found = admin.describe_topics([topic])[topic]
    if isinstance(found, Exception):
        raise found
    for each in found.partitions:
        if each.index == index:
            return each
    raise ClusterFailed(f"{topic} has no partition {index}")


def occupants_of(cluster: Cluster) -> dict[int, str]:
    """Return the nodes whose directory another process uses, each with the name of that process;
    empty if it is not found."""
    files = RealFiles()
    found = {}
    for node_id in cluster.node_ids:
        lock = f"{cluster.data_of(node_id)}/{_LOCK}"
        if not files.exists(lock):
            continue
        try:
            files.lock(lock).release()
        except BlockingIOError:
            holder = lock_holder(lock)
            found[node_id] = "" if holder is None else str(holder)
    return found
