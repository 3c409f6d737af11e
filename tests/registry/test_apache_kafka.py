"""The registry on Apache Kafka: all that it needs of a cluster is Kafka's protocol."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker
from tests.registry.served import USER, process

pytestmark = pytest.mark.real


def test_schemas_are_kept_in_apache_kafka(kafka_broker: KafkaBroker) -> None:
    with process(kafka_broker.bootstrap_servers) as (_, url):
        body = json.dumps({"schema": USER}).encode()
        path = f"{url}/subjects/on-kafka/versions"
        post = urllib.request.Request(path, body, {"Content-Type": "application/json"})  # noqa: S310
        with urllib.request.urlopen(post, timeout=60) as answer:  # noqa: S310
            made = json.loads(answer.read())
    with (
        process(kafka_broker.bootstrap_servers) as (_, url),
        urllib.request.urlopen(f"{url}/schemas/ids/{made['id']}", timeout=60) as answer,  # noqa: S310
    ):
        assert json.loads(answer.read())["schema"] == USER
