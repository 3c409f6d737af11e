"""Has the conversation with Apache Kafka anew and keeps it.

python -m tests.broker.api.renew
"""

from __future__ import annotations

import socket
import tempfile
import time
from pathlib import Path

import pytest

from moldau.broker.controller.metadata_batches import decode_records
from moldau.protocol.connection import ClientConnection
from moldau.protocol.declare import Request, Response
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.schemas.metadata_log import NoOpRecord
from moldau.records import walk
from moldau.runtime.node_processes import free_ports
from tests.broker.api import conversation
from tests.broker.api.conversation import Exchange, Footing, Question
from tests.broker.controller.cluster import topic
from tests.peers.apache_kafka import PeerMissing, fetch
from tests.peers.kafka_broker import HOST, BrokerOptions, KafkaBroker

pytestmark = pytest.mark.real  # no test, but it waits for a real process as those do

_SETTLED_S = 2.0
# Kafka answers when the controller has committed; the broker itself may hear of it later.
CHANGES = (CreateTopicsRequest, DeleteTopicsRequest, CreatePartitionsRequest)
_PUBLISHED_S = 0.3
SET = (
    (conversation.TOPIC, "t", {"retention.ms": "12345", "cleanup.policy": "compact,delete"}),
    (conversation.BROKER, "", {"log.retention.ms": "777777", "a.plugins": "x"}),
    (conversation.BROKER, "1", {"log.segment.bytes": "2000000", "a.plugins": "y"}),
    (conversation.SUBSCRIPTION, "sub", {"interval.ms": "1000", "match": "client_id=a.*"}),
    (conversation.GROUP, "g", {"consumer.session.timeout.ms": "50000"}),
)


class Line:
    """A connection to Kafka."""

    def __init__(self, port: int) -> None:
        self._stream = socket.create_connection((HOST, port), timeout=30)
        self._reader = self._stream.makefile("rb")
        self._protocol = ClientConnection("moldau-tests")

    def ask(self, request: Request, version: int) -> Response:
        self._stream.sendall(b"".join(map(bytes, self._protocol.send(request, version))))
        size = int.from_bytes(self._reader.read(4), "big")
        return self._protocol.receive(memoryview(self._reader.read(size))).response

    def close(self) -> None:
        self._reader.close()
        self._stream.close()


def main() -> None:
    try:
        kafka = fetch()
    except PeerMissing as missing:
        print(f"the conversation stays as it is: {missing}")
        return
    port, controller_port, other_port = free_ports(3)
    endpoints = {conversation.PLAINTEXT: (HOST, port), conversation.OTHER: ("elsewhere", 9999)}
    properties = {
        "listeners": f"PLAINTEXT://{HOST}:{port},OTHER://{HOST}:{other_port},"
        f"CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": ",".join(
            f"{name}://{host}:{at}" for name, (host, at) in endpoints.items()
        ),
        "listener.security.protocol.map": ",".join(
            f"{name}:PLAINTEXT" for name in (*endpoints, "CONTROLLER")
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "broker.rack": "r1",
    }
    with tempfile.TemporaryDirectory(prefix="kafka-conversation-") as folder:
        broker = KafkaBroker(kafka, Path(folder), BrokerOptions(properties=properties))
        broker.port, broker.controller_port = port, controller_port
        try:
            broker.start()
            lines = {conversation.PLAINTEXT: Line(port), conversation.OTHER: Line(other_port)}
            _prepare(lines[conversation.PLAINTEXT])
            footing = Footing(_kept(broker), broker.cluster_id, endpoints, _metadata_log(broker))
            exchanges = [_exchange(lines, each) for each in conversation.questions()]
            for line in lines.values():
                line.close()
        finally:
            broker.stop()
    conversation.write(footing, exchanges)


def _prepare(line: Line) -> None:
    line.ask(CreateTopicsRequest(topics=[topic("t", 2), topic("a.b")]), 7)
    for kind, name, values in SET:
        resource = AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                AlterableConfig(name=key, config_operation=0, value=value)
                for key, value in values.items()
            ],
        )
        line.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    time.sleep(_SETTLED_S)


def _kept(broker: KafkaBroker) -> dict[str, str]:
    """Its properties, but for where its files lie."""
    text = (broker.folder / "server.properties").read_text(encoding="utf-8")
    pairs = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in pairs if name != "log.dirs"}


def _metadata_log(broker: KafkaBroker) -> list[bytes]:
    """Batches that say something."""
    (log,) = (broker.data / "__cluster_metadata-0").glob("*.log")
    return [
        bytes(batch.data)
        for batch in walk(log.read_bytes())
        if any(not isinstance(each, NoOpRecord) for each in decode_records(batch))
    ]


def _exchange(lines: dict[str, Line], question: Question) -> Exchange:
    answer = lines[question.listener].ask(question.request, question.version)
    if isinstance(question.request, CHANGES):
        time.sleep(_PUBLISHED_S)
    return Exchange(question, answer)


if __name__ == "__main__":
    main()
