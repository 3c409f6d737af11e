"""Where the brokers of a case are: one process, shards, or three nodes, plain or with TLS, logins
and rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

from moldau.client import load_settings
from moldau.client.admin.security import Acl
from moldau.client.admin.sync.security import SecurityAdmin
from moldau.client.sync import Admin
from moldau.config.properties import format_properties
from moldau.link.login.jaas import LoginModule, write_jaas
from moldau.operations.acls import operation_of, principal_of, resource_of
from moldau.protocol.acl_operations import AclPermission
from moldau.protocol.scram import SCRAM_MECHANISMS
from moldau.records import coordinator_partition
from moldau.runtime.node_processes import free_ports_in_row
from moldau.testing import Cluster
from moldau.testing.cluster import Layout
from tests.conformance.broker import MoldauBroker

PREFIX: Final = "pairs"
"""What the names of apps, topics, groups and transactional ids begin with."""
_USER: Final = "app"
_PASSWORD: Final = "the app's password"  # noqa: S105 - of a cluster that lives for a test
_MECHANISM: Final = "SCRAM-SHA-512"
_RIGHTS: Final = (
    *(
        (each, f"topic:{PREFIX}*")
        for each in ("READ", "WRITE", "CREATE", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS")
    ),
    *((each, f"group:{PREFIX}*") for each in ("READ", "DESCRIBE", "ALTER_CONFIGS")),
    *((each, f"transactional-id:{PREFIX}*") for each in ("WRITE", "DESCRIBE")),
)
"""The rights of an app."""
SESSION_MS: Final = 6_000
_OF_BROKER: Final = {
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "group.streams.min.session.timeout.ms": str(SESSION_MS),
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "500",
}
_OFFSETS: Final = "__consumer_offsets"
_OF_NODES: Final = {
    **_OF_BROKER,
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}


class Host(Protocol):
    """The brokers of a case."""

    replicas: int

    @property
    def client(self) -> Mapping[str, str]:
        """The settings of a client that may do everything."""

    @property
    def app_words(self) -> Sequence[str]:
        """The words by which an app finds the brokers."""

    @property
    def command_words(self) -> Sequence[str]:
        """The words by which a command finds them."""

    def kill(self, group: str) -> None:
        """Kill the coordinator of a group, until `start`."""

    def start(self) -> None:
        """Start what was killed."""


class OneHost:
    """One broker, or the shards of one host."""

    replicas = 1

    def __init__(self, broker: MoldauBroker) -> None:
        self._broker = broker
        self.kill_all = broker.kill
        self.start = broker.start

    @property
    def client(self) -> Mapping[str, str]:
        return {"bootstrap.servers": self._broker.bootstrap_servers}

    @property
    def app_words(self) -> Sequence[str]:
        return ["--bootstrap", self._broker.bootstrap_servers]

    command_words = app_words

    def kill(self, group: str) -> None:
        """Whatever the group is, its coordinator is here."""
        self._broker.kill()


class ThreeNodes:
    """A cluster. In a secure one an app has a login of its own, and the rights that it needs."""

    replicas = 3

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._killed: list[int] = []
        self._app_file = f"{cluster.directory}/app.properties"
        self.client: Mapping[str, str] = {"bootstrap.servers": cluster.bootstrap_servers}
        self.app_words: Sequence[str] = ["--bootstrap", cluster.bootstrap_servers]
        self.command_words = self.app_words
        if cluster.security is not None:
            self.client = dict(load_settings(cluster.security.client_path))
            self.command_words = ["--command-config", cluster.security.client_path]
            self.app_words = ["--command-config", self._app_file]
            self._let_app_in()

    def _let_app_in(self) -> None:
        login = LoginModule("SCRAM", {"username": _USER, "password": _PASSWORD})
        own = {**self.client, "sasl.mechanism": _MECHANISM, "sasl.jaas.config": write_jaas(login)}
        Path(self._app_file).write_text(format_properties(own, ()), encoding="utf-8")
        rules = []
        for operation, resource in _RIGHTS:
            kind, name, pattern = resource_of(resource)
            what = (operation_of(operation), name, kind, pattern, AclPermission.ALLOW, "*")
            rules.append(Acl(principal_of(_USER), *what))
        with Admin(self.client) as admin:
            security = SecurityAdmin(admin)
            security.set_password(_USER, _PASSWORD, mechanism=SCRAM_MECHANISMS[_MECHANISM])
            refused = [each for each in security.create_acls(rules).values() if each is not None]
        assert not refused, refused

    def kill(self, group: str) -> None:
        index = coordinator_partition(group, int(_OF_NODES["offsets.topic.num.partitions"]))
        self._killed.append(self._cluster.leader_of(_OFFSETS, index))
        self._cluster.kill(self._killed[-1])

    def start(self) -> None:
        for each in self._killed:
            self._cluster.start(each)
        self._killed.clear()


@contextmanager
def opened_host(choice: str, folder: Path) -> Iterator[Host]:
    """Start the brokers of a choice of the column `host`."""
    count, _, kind = choice.partition(" ")
    home = folder / f"host-{choice.replace(' ', '-')}"
    if kind.endswith("nodes"):
        layout = Layout(is_secure="secure" in kind)
        with Cluster(int(count), directory=str(home), settings=_OF_NODES, layout=layout) as cluster:
            yield ThreeNodes(cluster)
        return
    settings = [word for row in _OF_BROKER.items() for word in ("--set", "=".join(row))]
    broker = MoldauBroker(home, "--shards", count, *settings)
    broker.port = free_ports_in_row(int(count) + 1)
    with broker:
        yield OneHost(broker)
