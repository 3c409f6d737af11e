"""The schema of a topic, asked from a real registry."""

from __future__ import annotations

import pytest

from moldau.client.serdes import Schema
from moldau.client.sync import SchemaRegistry
from moldau.pipeline.registries import registered_shape
from moldau.pipeline.shapes import AVRO, Shape
from moldau.runtime.node_processes import free_ports
from moldau.testing import SyncEmbeddedBroker
from tests.registry.served import USER_2, process


@pytest.mark.real
def test_a_registry_says_which_fields_a_topic_has(moldau_broker: SyncEmbeddedBroker) -> None:
    with process(moldau_broker.bootstrap_servers) as (_, url):
        with SchemaRegistry(url) as registry:
            registry.register("pipeline-users-value", Schema(USER_2))
        found = registered_shape(url, "pipeline-users")
        missing = registered_shape(url, "pipeline-orders")

    assert isinstance(found, Shape)
    assert found.format == AVRO
    assert found.fields is not None
    assert {name: (each.text, each.is_required) for name, each in found.fields.items()} == {
        "name": ("string", True),
        "age": ("integer", False),
    }
    assert isinstance(missing, str)
    assert "pipeline-orders-value" in missing


def test_a_registry_that_does_not_answer_is_a_reason() -> None:
    found = registered_shape(f"http://127.0.0.1:{free_ports(1)[0]}", "orders")
    assert isinstance(found, str)
    assert "\n" not in found
