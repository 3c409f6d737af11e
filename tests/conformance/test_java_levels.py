"""Data directories of Apache Kafka 4.3.1 and 4.4.0 are opened by us and by Kafka in turn.

Each finds what both wrote: topics, records, rules, users, committed offsets, a transaction. A
directory keeps its levels until somebody raises them, and what needs a higher one is refused by
both in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from moldau.client import (
    Acl,
    AclFilter,
    AclOperation,
    AclResource,
    NewTopic,
    TopicPartition,
)
from moldau.client.sync import Admin, Consumer, Downgrade, Producer, SecurityAdmin
from moldau.errors.codes import ErrorCode, KafkaError
from tests.conformance.broker import MoldauBroker
from tests.peers.apache_kafka import OLDER, VERSION, fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import BrokerFailed, BrokerOptions, KafkaBroker

pytestmark = pytest.mark.real

SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
TOPIC, GROUP, METADATA = "kept", "readers", "metadata.version"
OPTIONS: Final = BrokerOptions(properties=SETTINGS)
NETWORK: Final = "10.1.0.0/16"
LEVELS: Final = {OLDER: (30, 1), VERSION: (33, 2)}
"""metadata.version and share.version of a new cluster."""


class Contents:
    """What a directory holds, and what each broker adds to it."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.hosts = {"10.9.9.9"}
        self.position = 0

    def fill(self, servers: str) -> None:
        """Make everything, on the first broker."""
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topic(NewTopic(TOPIC, 1, 1))
            security = SecurityAdmin(admin)
            security.create_acls([rule(each) for each in self.hosts])
            security.set_password("ann", "a secret")

    def work(self, servers: str, label: str) -> None:
        """Find everything, and add to it: records, a transaction that is aborted, an offset."""
        with Admin(bootstrap_servers=servers) as admin:
            security = SecurityAdmin(admin)
            eventually(lambda: {each.host for each in security.describe_acls()} == self.hosts)
            eventually(lambda: [each.name for each in security.describe_users()] == ["ann"])
        self._write(servers, label)
        with Consumer(
            bootstrap_servers=servers,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        ) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            read: list[bytes] = []
            while len(read) < len(self.values) - self.position:
                found = consumer.poll(5)
                read += [bytes(each.value or b"") for part in found for each in part.records]
            assert read == self.values[self.position :], "it goes on where the last one committed"
            consumer.commit()
        self.position = len(self.values)

    def _write(self, servers: str, label: str) -> None:
        values = [f"{label} {number}".encode() for number in range(20)]
        with Producer(bootstrap_servers=servers, transactional_id="writer") as producer:
            with producer.transaction():
                for value in values:
                    producer.send(TOPIC, value)
            with suppress(ZeroDivisionError), producer.transaction():
                producer.send(TOPIC, b"never seen")
                raise ZeroDivisionError
        self.values += values

    def add_network(self, servers: str) -> None:
        with Admin(bootstrap_servers=servers) as admin:
            (error,) = SecurityAdmin(admin).create_acls([rule(NETWORK)]).values()
            assert error is None
        self.hosts.add(NETWORK)


def rule(host: str) -> Acl:
    return Acl("User:ann", AclOperation.READ, TOPIC, AclResource.TOPIC, host=host)


def levels(servers: str) -> tuple[int, int]:
    with Admin(bootstrap_servers=servers) as admin:
        found = admin.describe_features()
    return found["metadata.version"], found["share.version"]


def refusals(servers: str, lower: int) -> list[ErrorCode]:
    """The error of a network in a rule, of a controller that leaves, and of a lower level by a safe
    and an unsafe downgrade."""
    found: list[ErrorCode] = []
    with Admin(bootstrap_servers=servers) as admin:
        (error,) = SecurityAdmin(admin).create_acls([rule("10.2.0.0/16")]).values()
        found += [ErrorCode.NONE if error is None else error.code]
        SecurityAdmin(admin).delete_acls(AclFilter(host="10.2.0.0/16"))
        changes: tuple[Callable[[], None], ...] = (
            lambda: admin.unregister_controller(9),
            lambda: admin.update_features({METADATA: lower}, downgrade=Downgrade.SAFE),
            lambda: admin.update_features({METADATA: lower}, downgrade=Downgrade.UNSAFE),
        )
        for change in changes:
            with pytest.raises(KafkaError) as refused:
                change()
            found.append(refused.value.code)
    return found


AT_30: Final = [
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_UPDATE_VERSION,
]
AT_33: Final = [
    ErrorCode.NONE,
    ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_UPDATE_VERSION,
]


class Directory:
    """One directory, which one broker at a time opens by the same file of settings."""

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder
        self._first = KafkaBroker(fetch_or_skip(version), folder, OPTIONS)
        self._ours = MoldauBroker(folder, "--config", str(folder / "server.properties"))

    @contextmanager
    def of_kafka(self, version: str) -> Iterator[str]:
        """Kafka of that version has it."""
        first = self._first
        kafka = KafkaBroker(fetch_or_skip(version), self.folder, OPTIONS)
        kafka.port, kafka.controller_port = first.port, first.controller_port
        try:
            kafka.start()
            first.port, first.controller_port = kafka.port, kafka.controller_port
            yield kafka.bootstrap_servers
            kafka.stop()
        finally:
            kafka.kill()

    @contextmanager
    def of_ours(self) -> Iterator[str]:
        with self._ours as broker:
            yield broker.bootstrap_servers


@pytest.mark.parametrize("version", [OLDER, VERSION])
def test_a_directory_goes_to_us_and_back_at_its_levels(tmp_path: Path, version: str) -> None:
    directory, contents = Directory(tmp_path, version), Contents()
    with directory.of_kafka(version) as servers:
        assert levels(servers) == LEVELS[version]
        contents.fill(servers)
        if version == VERSION:
            contents.add_network(servers)
        contents.work(servers, "Kafka")
    with directory.of_ours() as servers:
        assert levels(servers) == LEVELS[version]
        contents.work(servers, "ours")
        assert refusals(servers, 29) == (AT_33 if version == VERSION else AT_30)
    with directory.of_kafka(version) as servers:
        contents.work(servers, "Kafka again")


def test_levels_are_raised_here_and_kafka_goes_on_with_them(tmp_path: Path) -> None:
    directory, contents = Directory(tmp_path, OLDER), Contents()
    with directory.of_kafka(OLDER) as servers:
        contents.fill(servers)
        contents.work(servers, "4.3.1")
    with directory.of_kafka(VERSION) as servers:
        assert levels(servers) == LEVELS[OLDER]
        assert refusals(servers, 29) == AT_30
        contents.work(servers, "4.4.0")
    with directory.of_ours() as servers:
        assert refusals(servers, 29) == AT_30
        with Admin(bootstrap_servers=servers) as admin:
            admin.update_features({METADATA: 33, "share.version": 2})
        eventually(lambda: levels(servers) == LEVELS[VERSION])
        contents.add_network(servers)
        contents.work(servers, "ours")
        assert refusals(servers, 32) == AT_33
    with directory.of_kafka(VERSION) as servers:
        assert levels(servers) == LEVELS[VERSION]
        contents.work(servers, "4.4.0 at its levels")
        assert refusals(servers, 32) == AT_33
    with pytest.raises(BrokerFailed), directory.of_kafka(OLDER):
        pass
    with directory.of_ours() as servers:
        contents.work(servers, "ours at last")
