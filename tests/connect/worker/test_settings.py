"""A worker's settings: what is unknown is named, with the nearest name that is known."""

from __future__ import annotations

import pytest

from moldau.connect.worker.settings import DEFAULTS, DISTRIBUTED, complete, unknown_settings
from moldau.errors import ConfigError


def test_a_misspelt_setting_is_named_with_the_nearest() -> None:
    (found,) = unknown_settings({"offset.flush.intervall.ms": "1000"})

    assert found.key == "offset.flush.intervall.ms"
    assert 'did you mean "offset.flush.interval.ms"?' in found.text


def test_settings_of_kafka_connect_and_of_parts_are_known() -> None:
    given = {
        **DEFAULTS,
        **DISTRIBUTED,
        "plugin.path": "/opt/plugins",
        "rest.advertised.host.name": "here",
        "producer.linger.ms": "5",
        "value.converter.schemas.enable": "false",
        "config.storage.min.insync.replicas": "2",
    }

    assert list(unknown_settings(given)) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task.isolation", "container"),
        ("offset.flush.interval.ms", "soon"),
        ("status.storage.partitions", "-3"),
        ("topic.creation.enable", "perhaps"),
    ],
)
def test_a_value_that_no_worker_can_use_is_an_error_that_names_it(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        complete({name: value}, is_distributed=True)

    assert caught.value.context["setting"] == name
