"""A worker's settings: what is unknown is named, with the nearest name that is known."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import moldau.client
import moldau.link.settings
from moldau.connect import herder
from moldau.connect.installed.converters import check_converters
from moldau.connect.worker.kafka_settings import BUILT, OF_LOGINS, REFUSED
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
        ("internal.topics.automatic.creation.enable", "perhaps"),
        ("exactly.once.source.support", "perhaps"),
    ],
)
def test_a_value_that_no_worker_can_use_is_an_error_that_names_it(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        complete({name: value}, is_distributed=True)

    assert caught.value.context["setting"] == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key.converter", "org.example.NoSuchConverter"),
        ("header.converter", "NoSuch"),
        ("value.converter.schemas.enable", "maybe"),
    ],
)
def test_a_converter_that_no_connector_can_use_is_an_error_at_the_start(
    name: str, value: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_converters(complete({name: value}, is_distributed=True))

    assert caught.value.context["setting"] == name
    check_converters(complete({}, is_distributed=True))


def of_kafka() -> list[str]:
    text = (Path(__file__).parent / "kafka_worker_settings.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


PROMISES = {
    "inter.worker.key.generation.algorithm": "HmacMD5",
    "inter.worker.signature.algorithm": "HmacMD5",
    "inter.worker.verification.algorithms": "HmacMD5,HmacSHA1",
    "rest.advertised.listener": "ftp",
}


@pytest.mark.parametrize("name", of_kafka())
def test_each_setting_of_kafka_is_built_or_refused_or_warned_of(name: str) -> None:
    if name in REFUSED:
        with pytest.raises(ConfigError) as caught:
            complete({name: PROMISES.get(name, "1.0")}, is_distributed=True)
        assert caught.value.context["setting"] == name
        return
    warned = [each.key for each in unknown_settings({name: "1"})]
    is_built = name in {*DEFAULTS, *DISTRIBUTED, *BUILT}
    assert warned == ([] if is_built or name in OF_LOGINS else [name])
    if is_built:
        assert name in names_in_sources()


@cache
def names_in_sources() -> set[str]:
    """The names of settings that the code of workers and clients reads."""
    folder = Path(herder.__file__).parent.parent
    platform = [Path(moldau.link.settings.__file__).parent, Path(moldau.client.__file__).parent]
    files = [file for each in (folder, *platform) for file in each.rglob("*.py")]
    texts = [
        file.read_text(encoding="utf-8") for file in files if "kafka_settings" not in file.name
    ]
    stems = ["config", "offset", "status"]
    suffixes = ["topic", "partitions", "replication.factor"]
    internal = {f"{stem}.storage.{suffix}" for stem in stems for suffix in suffixes}
    return {name for name in of_kafka() if sum(f'"{name}"' in text for text in texts)} | internal


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_promise_nothing_are_accepted(name: str) -> None:
    for value in REFUSED[name].values:
        assert complete({name: value}, is_distributed=True)[name] == value


@pytest.mark.parametrize("name", ["listeners", "admin.listeners"])
@pytest.mark.parametrize("value", ["http://:8083,http://:8084"])
def test_addresses_that_would_not_be_served_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        complete({name: value}, is_distributed=True)

    assert caught.value.context["setting"] == name
