"""Every documented key of every plugin with values of a wrong type, out of range and in odd
combinations: the answer is ConfigInfos that name the key, never an error of ours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from moldau.client.settings.rows import ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS
from moldau.connect.config.connectors import SinkConfig, SourceConfig
from moldau.connect.config.infos import ConfigInfos
from moldau.connect.config.kinds import ConfigType
from moldau.connect.config.model import ConfigKey, ConfigModel
from moldau.connect.herder.operations import validated
from moldau.connect.installed.plugins import catalogue
from moldau.connect.plugins import PluginKind
from moldau.errors import ConfigError
from tests.suites import seeds

NUMBERS = (ConfigType.INT, ConfigType.LONG, ConfigType.SHORT, ConfigType.DOUBLE)
WRONG = ("", " ", "x y", "-1", "-9" * 15, "9" * 30, "1e999", "nan", "true,false", ",,", "[(", "\0",
         "${", "${a:b}", "\ud7ff", "a" * 10_000)  # fmt: skip
BASES = {
    "FileStreamSourceConnector": {"file": "in", "topic": "t"},
    "FileStreamSinkConnector": {"file": "out", "topics": "t"},
    "JdbcSourceConnector": {
        "connection.url": "jdbc:sqlite::memory:",
        "mode": "bulk",
        "topic.prefix": "t-",
    },
    "JdbcSinkConnector": {"connection.url": "jdbc:sqlite::memory:", "topics": "t"},
    "SparkSinkConnector": {"topics": "t", "path": "out", "checkpoint.location": "c"},
}


class Place(NamedTuple):
    """Where a setting stands in which config."""

    base: dict[str, str]
    name: str
    setting: ConfigKey
    model: type[ConfigModel]

    def __str__(self) -> str:
        return f"{self.base['connector.class'].rpartition('.')[2]}:{self.name}"


def connectors() -> list[dict[str, str]]:
    """A config that is good, or nearly, of each connector that is installed."""
    found = []
    for plugin in catalogue().all(PluginKind.CONNECTOR):
        name = plugin.name.rpartition(".")[2]
        found.append({"name": "c", "connector.class": plugin.name, **BASES.get(name, {})})
    return found


def places() -> Iterator[Place]:
    for base in connectors():
        cls = catalogue().find(PluginKind.CONNECTOR, base["connector.class"]).cls
        shared = SinkConfig if "topics" in base else SourceConfig
        for model in (shared, cls.config_model):
            for setting in model.settings():
                if setting.name not in ("name", "connector.class"):
                    yield Place(base, setting.name, setting, model)
    yield from parts()


def parts() -> Iterator[Place]:
    """Of what a connector is put together from."""
    base = next(each for each in connectors() if "FileStreamSink" in each["connector.class"])
    for kind, prefix in (
        (PluginKind.CONVERTER, "value.converter"),
        (PluginKind.HEADER_CONVERTER, "header.converter"),
    ):
        for plugin in catalogue().all(kind):
            given = {**base, prefix: plugin.name}
            for setting in plugin.cls.config_model.settings():
                yield Place(given, f"{prefix}.{setting.name}", setting, plugin.cls.config_model)
    for plugin in catalogue().all(PluginKind.TRANSFORMATION):
        given = {**base, "transforms": "a", "transforms.a.type": plugin.name}
        for setting in plugin.cls.config_model.settings():
            yield Place(given, f"transforms.a.{setting.name}", setting, plugin.cls.config_model)
    for plugin in catalogue().all(PluginKind.PREDICATE):
        given = {**base, "predicates": "a", "predicates.a.type": plugin.name}
        for setting in plugin.cls.config_model.settings():
            yield Place(given, f"predicates.a.{setting.name}", setting, plugin.cls.config_model)


def checked(config: dict[str, str], *, asks: bool = False) -> ConfigInfos | None:
    """What validation says; None for a refusal, which is 400 as well."""
    try:
        return validated(config, {}, asks=asks)
    except ConfigError:
        return None


def errors_of(infos: ConfigInfos | None, name: str) -> list[str]:
    assert infos is not None
    return [problem.text for problem in infos.errors if problem.key == name]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("part", seeds(range(4), quick=1))
def test_wrong_values_of_any_key_are_answered(part: int) -> None:
    count = 0
    for number, place in enumerate(places()):
        for wrong in WRONG[(part + number) % 4 :: 4]:
            checked({**place.base, place.name: wrong})
            count += 1

    assert count > 750


def test_what_is_no_number_and_no_truth_is_an_error_of_its_key() -> None:
    for place in places():
        if place.setting.kind in (*NUMBERS, ConfigType.BOOLEAN):
            found = errors_of(checked({**place.base, place.name: "x y"}), place.name)
            assert found, str(place)
            assert place.name in " ".join(found) or "x y" in " ".join(found), str(place)


def test_values_out_of_range_are_errors_of_their_key() -> None:
    for place in places():
        if place.setting.kind in NUMBERS and place.setting.kind is not ConfigType.DOUBLE:
            for wrong in ("9" * 30, "-" + "9" * 30, "1.5"):
                assert errors_of(checked({**place.base, place.name: wrong}), place.name), str(place)


def test_odd_pairs_of_settings_are_answered() -> None:
    """Each setting beside the one that is documented after it."""
    for before, after in pairwise(places()):
        if before.base == after.base:
            for one, two in (("0", "1"), ("true", "true"), ("x", "y"), ("-1", "")):
                config = {**before.base, before.name: one, after.name: two}
                checked(config, asks="FileStream" in config["connector.class"])


def test_values_beyond_the_documented_limits_are_errors_of_their_key() -> None:
    count = 0
    for place in places():
        for wrong in beyond(place):
            assert errors_of(checked({**place.base, place.name: wrong}), place.name), (
                f"{place}={wrong}"
            )
            count += 1

    assert count > 100


def beyond(place: Place) -> list[str]:
    """Values just outside the limits that the model of a setting has, and no choice of its own."""
    if place.setting.choices:
        return ["no-such-choice"]
    field = place.model.model_fields[place.setting.attribute]
    limits = field.metadata
    found = [str(limit.ge - 1) for limit in limits if hasattr(limit, "ge")]
    return found + [str(limit.le + 1) for limit in limits if hasattr(limit, "le")]


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("errors.retry.timeout", "-5"),
        ("errors.retry.delay.max.ms", "0"),
        ("errors.restart.max", "many"),
        ("errors.restart.backoff.ms", "-1"),
        ("task.isolation", "moon"),
        ("errors.deadletterqueue.topic.name", "no topic!"),
        ("errors.deadletterqueue.topic.replication.factor", "0"),
        ("topics", "a/b"),
        ("producer.override.acks", "7"),
        ("consumer.override.max.poll.recordz", "5"),
        ("consumer.override.max.poll.records", "x"),
        ("admin.override.request.timeout.ms", "soon"),
    ],
)
def test_wrong_settings_of_what_runs_a_connector_are_errors_of_their_key(
    key: str, wrong: str
) -> None:
    base = next(each for each in connectors() if "FileStreamSink" in each["connector.class"])
    (text,) = errors_of(checked({**base, key: wrong}), key)
    assert len(text) > 10


@pytest.mark.parametrize("kind", ["producer", "consumer", "admin"])
def test_each_setting_of_a_client_that_is_no_text_is_checked(kind: str) -> None:
    tables = {"producer": PRODUCER_SETTINGS, "consumer": CONSUMER_SETTINGS, "admin": ADMIN_SETTINGS}
    base = next(each for each in connectors() if "FileStreamSink" in each["connector.class"])
    numbers = [row.name for row in tables[kind] if row.kind.name in ("int", "long", "boolean")]
    assert len(numbers) > 5
    for name in numbers:
        key = f"{kind}.override.{name}"
        assert errors_of(checked({**base, key: "x y"}), key), key
