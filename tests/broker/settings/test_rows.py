"""Our rows are Kafka's: names, types, defaults, importance, update modes, compared both ways."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.settings import group, topic
from moldau.broker.settings.description import written
from moldau.broker.settings.resource import Default
from moldau.broker.settings.tables import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    INTERNAL,
    NOUNS,
    TOPIC_SETTINGS,
    rows,
)
from moldau.config import REQUIRED, SettingTable, UpdateMode
from moldau.config.setting import Absent
from moldau.config.table import Row
from tests.broker.settings import kept
from tests.broker.settings.cases import INTERNAL_TO_KAFKA, is_own
from tests.peers.apache_kafka import fetch_or_skip

TABLES = {
    "broker": BROKER_SETTINGS,
    "topic": TOPIC_SETTINGS,
    "group": GROUP_SETTINGS,
    "client-metrics": CLIENT_METRICS_SETTINGS,
}


def kafkas(kind: str) -> dict[str, dict[str, Any]]:
    found = list(kept.facts()[kind])
    if kind == "broker":
        found += kept.facts()["broker-quota"]
    return {row["name"]: row for row in found}


def of_kafka(table: SettingTable) -> list[Row]:
    """The rows of a table without our own settings, whose names say so."""
    return [row for row in table if not is_own(row.name)]


def as_kafka_says(row: Row) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "type": row.kind.name,
        "importance": row.importance.value,
        "required": row.default is REQUIRED,
        "internal": row.name in INTERNAL or row.name in INTERNAL_TO_KAFKA,
    }
    if row.default is not REQUIRED:
        facts["default"] = None if isinstance(row.default, Absent) else written(row, row.default)
    return facts


@pytest.mark.parametrize("kind", TABLES)
def test_every_setting_of_kafka_is_a_row_and_others_are_named_as_ours(kind: str) -> None:
    assert {row.name for row in of_kafka(TABLES[kind])} == set(kafkas(kind))


@pytest.mark.parametrize("kind", TABLES)
def test_rows_have_the_facts_of_kafka(kind: str) -> None:
    wanted = {
        name: {key: row[key] for key in row if key not in ("name", "valid", "may_be_empty")}
        for name, row in kafkas(kind).items()
    }

    assert {row.name: as_kafka_says(row) for row in of_kafka(TABLES[kind])} == wanted


CHANGED_HERE = INTERNAL_TO_KAFKA | {"group.streams.rack.aware.assignment.tags"}
"""Settings of streams groups that take effect at once here; Kafka reads them when it starts."""


def test_what_may_change_while_running_is_what_kafka_lets_change() -> None:
    ours = {
        row.name: row.dynamic.value
        for row in of_kafka(BROKER_SETTINGS)
        if row.dynamic is not UpdateMode.READ_ONLY and row.name not in CHANGED_HERE
    }

    assert ours == kept.facts()["update-modes"]


def test_topics_fall_back_to_the_settings_that_kafka_names() -> None:
    ours = by_name(topic.BROKER_DEFAULTS)
    assert {name: ours[name] for name in ours if not is_own(name)} == {
        name: synonyms[0] for name, synonyms in kept.facts()["topic-synonyms"].items()
    }
    for row, default in topic.BROKER_DEFAULTS.items():
        if is_own(row.name):
            continue
        assert chain(default.setting) == kept.facts()["topic-synonyms"][row.name]


def test_groups_fall_back_to_the_settings_that_kafka_names() -> None:
    synonyms = kept.facts()["group-synonyms"]

    ours = by_name(group.BROKER_DEFAULTS)
    assert {name: ours[name] for name in ours if not is_own(name)} == {
        name: synonym for name, synonym in synonyms.items() if synonym is not None
    }


def test_a_default_from_the_broker_is_of_the_same_kind() -> None:
    for defaults in (topic.BROKER_DEFAULTS, group.BROKER_DEFAULTS):
        for row, default in defaults.items():
            is_converted = row.kind is not default.setting.kind
            assert not is_converted or default.convert is not None, row.name


def test_coarser_units_are_those_of_kafka() -> None:
    for name, synonyms in kept.facts()["broker-synonyms"].items():
        row = BROKER_SETTINGS.find(name)
        assert row is not None
        assert chain(row) == synonyms[synonyms.index(name) :]


def test_a_row_is_called_as_its_variable() -> None:
    for module in (*NOUNS, topic, group):
        for name, row in vars(module).items():
            if row in tuple(rows(module)):
                assert name == row.name.replace(".", "_").replace("-", "_")


def test_each_row_is_in_one_noun() -> None:
    names = [row.name for noun in NOUNS for row in rows(noun)]

    assert len(names) == len(set(names)) == len(BROKER_SETTINGS)


@pytest.mark.parametrize("table", TABLES.values())
def test_no_sentence_is_empty_or_long(table: SettingTable) -> None:
    for row in table:
        assert 3 <= len(row.doc.split()) <= 40, row.name


@pytest.mark.real
def test_the_kept_facts_are_those_of_kafka() -> None:
    assert kept.ask_facts(fetch_or_skip()) == kept.facts()


def by_name(defaults: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for row, default in defaults.items():
        assert isinstance(default, Default)
        found[row.name] = default.setting.name
    return found


def chain(row: Row) -> list[str]:
    names = [row.name]
    while row.fallback is not None:
        row = row.fallback.setting
        names.append(row.name)
    return names
