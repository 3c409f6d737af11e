"""A config is validated with everything that it names, and every mistake is told at once."""

from __future__ import annotations

import sys

import pytest

from moldau.connect.config.infos import ConfigInfos
from moldau.connect.plugins import Catalogue, PluginKind, PluginNotFound, validate
from moldau.errors import ConfigError
from moldau.plugins.extras import install_command
from tests.connect.plugins.installed import catalogue

SOUND: dict[str, str | None] = {
    "name": "ticks",
    "connector.class": "TickSource",
    "topic": "t",
    "tick.anything": "5",
    "producer.override.acks": "1",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "one",
    "transforms.one.type": "Suffix$Value",
    "transforms.one.suffix": "!",
    "transforms.one.predicate": "tick",
    "predicates": "tick",
    "predicates.tick.type": "IsTick",
}


def validated(**changes: str | None) -> ConfigInfos:
    return validate(catalogue(), {**SOUND, **{k.replace("__", "."): v for k, v in changes.items()}})


def texts(infos: ConfigInfos) -> dict[str, str]:
    return {problem.key: problem.text for problem in infos.errors}


def test_a_sound_config_has_no_errors_and_no_warnings() -> None:
    infos = validated()

    assert infos.errors == []
    assert infos.warnings == []
    assert infos.name == "TickSource"


@pytest.mark.parametrize(
    "setting",
    [
        "connector.plugin.version",
        "value.converter.plugin.version",
        "header.converter.plugin.version",
        "transforms.one.plugin.version",
        "predicates.tick.plugin.version",
    ],
)
def test_another_version_than_the_installed_one_is_refused(setting: str) -> None:
    assert list(texts(validated(**{setting: "[0.0.1]"}))) == [setting]


def test_the_installed_version_may_be_named() -> None:
    (installed,) = [each for each in catalogue().all(PluginKind.CONNECTOR) if "Tick" in each.name]

    assert texts(validated(connector__plugin__version=installed.version)) == {}
    for wanted in (f"[{installed.version},)", "(,999]", "latest"):
        assert texts(validated(connector__plugin__version=wanted)) == {}


def test_a_refused_range_of_versions_says_what_is_installed() -> None:
    (installed,) = [each for each in catalogue().all(PluginKind.CONNECTOR) if "Tick" in each.name]

    for wanted in ("[999,)", "[1.0", "4.3.1"):
        told = texts(validated(connector__plugin__version=wanted))["connector.plugin.version"]
        assert f"installed is {installed.version}" in told


def test_the_settings_of_all_parts_are_there() -> None:
    infos = validated()

    groups = {info.name: info.definition["group"] for info in infos.configs if info.definition}

    assert groups["transforms.one.suffix"] == "Transforms: one"
    assert groups["transforms.one.type"] == "Transforms: one"
    assert groups["predicates.tick.type"] == "Predicates: tick"
    assert groups["value.converter.schemas.enable"] == "Schemas"
    assert groups["every.ms"] is None
    assert groups["tasks.max"] == "Common"


def test_every_mistake_is_told_at_once() -> None:
    found = texts(
        validated(
            name=None,
            topic="nowhere",
            every__ms="0",
            tasks__max="x",
            value__converter__schemas__enable="maybe",
            transforms="one,two,three",
            transforms__one__suffix=None,
            transforms__two__type="Nothing",
            predicates__tick__type=None,
        )
    )

    assert "Null value can not be supplied" in found["predicates.tick.type"]
    assert found.keys() == {
        "name",
        "topic",
        "every.ms",
        "tasks.max",
        "value.converter.schemas.enable",
        "transforms.one.suffix",
        "transforms.two.type",
        "transforms.three.type",
        "predicates.tick.type",
    }
    assert found["topic"] == "no such place"
    assert "which name matches Nothing" in found["transforms.two.type"]


def test_the_connector_is_not_asked_where_nobody_wants_it() -> None:
    given = {**SOUND, "topic": "nowhere"}

    assert validate(catalogue(), given, ask_connector=False).errors == []


@pytest.mark.parametrize(
    ("changes", "key", "text"),
    [
        ({"key__converter": "Jsn"}, "key.converter", 'did you mean "Json'),
        ({"transforms__one__predicate": "tock"}, "transforms.one.predicate", "does not list"),
        (
            {"transforms__one__predicate": None, "transforms__one__negate": "true"},
            "transforms.one.type",
            "defining a predicate to be negated",
        ),
        ({"transforms": "one,one"}, "transforms", "Duplicate alias"),
        ({"exactly__once__support": "x"}, "exactly.once.support", "requested, required"),
    ],
)
def test_a_mistake_in_a_part(changes: dict[str, str | None], key: str, text: str) -> None:
    assert text in texts(validated(**changes))[key]


def test_a_key_that_nothing_reads_is_a_warning_with_the_nearest_name() -> None:
    infos = validated(topik="x", transforms__one__sufix="x", value__converter__schemas__enabel="x")

    assert infos.errors == []
    assert [str(warning) for warning in infos.warnings] == [
        'topik: Nothing reads the configuration "topik"; did you mean "topic"?',
        'transforms.one.sufix: Nothing reads the configuration "transforms.one.sufix"; '
        'did you mean "transforms.one.suffix"?',
        "value.converter.schemas.enabel: Nothing reads the configuration "
        '"value.converter.schemas.enabel"; did you mean "value.converter.schemas.enable"?',
    ]


def test_errors_that_vanish_without_a_trace_are_a_warning() -> None:
    silent = validated(errors__tolerance="all")

    assert [warning.key for warning in silent.warnings] == ["errors.tolerance"]
    assert validated(errors__tolerance="all", errors__log__enable="true").warnings == []


def test_a_dead_letter_queue_into_which_nothing_goes_is_a_warning() -> None:
    queue = {
        "name": "lines", "connector.class": "FileStreamSink", "topics": "t", "file": "f",
        "errors.deadletterqueue.topic.name": "dead",
    }  # fmt: skip

    (warning,) = validate(Catalogue.installed(), queue).warnings
    tolerant = validate(Catalogue.installed(), {**queue, "errors.tolerance": "all"})

    assert warning.key == "errors.deadletterqueue.topic.name"
    assert "errors.tolerance=all" in warning.text
    assert tolerant.warnings == []


def test_without_a_connector_there_is_nothing_to_validate() -> None:
    with pytest.raises(ConfigError, match=r'no "connector\.class"'):
        validate(catalogue(), {"name": "x"})
    with pytest.raises(PluginNotFound, match="which name matches Other"):
        validate(catalogue(), {"connector.class": "Other"})


@pytest.mark.parametrize(
    ("converter", "module", "extra"),
    [
        ("io.confluent.connect.avro.AvroConverter", "fastavro", "avro"),
        ("io.confluent.connect.protobuf.ProtobufConverter", "proto_schema_parser", "protobuf"),
        ("io.confluent.connect.json.JsonSchemaConverter", "jsonschema_rs", "json-schema"),
    ],
)
def test_a_library_that_is_missing_is_an_error_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, converter: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for loaded in [each for each in sys.modules if each.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, loaded)
    config = {
        "name": "lines", "connector.class": "FileStreamSource", "topic": "t", "file": "f",
        "value.converter": converter,
        "value.converter.schema.registry.url": "http://127.0.0.1:1",
    }  # fmt: skip

    found = texts(validate(Catalogue.installed(), config))

    assert install_command(extra) in found["value.converter"]
