"""Transforms run in their order, on the records that their predicates choose."""

from __future__ import annotations

import pytest

from moldau.connect.api import SourceRecord
from moldau.connect.errors import ConnectError
from moldau.connect.plugins import (
    new_connector,
    new_converter,
    new_header_converter,
    transformation_stages,
)
from moldau.errors import ConfigError
from tests.connect.plugins.installed import catalogue
from tests.connect.plugins.own import TickSourceConnector

PROPS = {
    "transforms": "one, two",
    "transforms.one.type": "Suffix$Value",
    "transforms.one.suffix": "!",
    "transforms.one.predicate": "tick",
    "transforms.two.type": "com.example.Suffix$Value",
    "transforms.two.suffix": "?",
    "predicates": "tick",
    "predicates.tick.type": "IsTick",
}


def through(props: dict[str, str], value: str) -> str:
    record: SourceRecord | None = SourceRecord({}, {}, "t", value=value)
    for stage in transformation_stages(catalogue(), props):
        assert record is not None
        record = stage.apply(record)
    assert record is not None
    return str(record.value)


def test_a_predicate_chooses() -> None:
    assert through(PROPS, "tick") == "tick!?"
    assert through(PROPS, "tock") == "tock?"


def test_a_negated_predicate_chooses_the_others() -> None:
    negated = {**PROPS, "transforms.one.negate": "TRUE"}

    assert through(negated, "tick") == "tick?"
    assert through(negated, "tock") == "tock!?"


@pytest.mark.parametrize(
    ("missing", "complaint"),
    [
        ("transforms.one.type", r"transforms\.one\.type is missing"),
        ("predicates.tick.type", r"predicates\.tick\.type is missing"),
    ],
)
def test_a_part_without_a_type_is_refused(missing: str, complaint: str) -> None:
    props = {name: text for name, text in PROPS.items() if name != missing}

    with pytest.raises(ConnectError, match=complaint):
        transformation_stages(catalogue(), props)


def test_a_part_with_a_wrong_setting_is_refused() -> None:
    props = {name: text for name, text in PROPS.items() if name != "transforms.one.suffix"}

    with pytest.raises(ConfigError, match='"suffix" which has no default value'):
        transformation_stages(catalogue(), props)


def test_connectors_and_converters_are_made_ready() -> None:
    plugins = catalogue()

    assert isinstance(new_connector(plugins, "TickSource"), TickSourceConnector)
    plain = new_converter(plugins, "Json", {"schemas.enable": "false"}, is_key=True)
    assert plain.is_key
    assert plain.from_connect_data("t", None, None, {"a": 1}) == b'{"a":1}'
    header = new_header_converter(plugins, "String", {})
    assert header.from_connect_header("t", "h", None, "x") == b"x"
