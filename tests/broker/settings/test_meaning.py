"""Nothing that somebody wrote down is swallowed in silence."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

import moldau.broker.settings as settings_package
from moldau.broker.settings import (
    BROKER_SETTINGS,
    GROUP_SETTINGS,
    broker_settings,
    controller,
    group,
    network,
    node,
    notices,
    tiered,
    topic,
    unbuilt,
)
from moldau.broker.settings.meaning import FORGOTTEN, IGNORED, REMOVED
from moldau.broker.settings.unbuilt import UNBUILT
from moldau.broker.settings.waiting import WAITING, waits_for
from moldau.config import BOOLEAN, BadSettings, Setting, Settings
from moldau.config.table import Row
from tests.broker.settings.cases import BASE
from tests.broker.settings.ours import file_layer

ROOT: Final = Path(__file__).parents[3]
DECLARATIONS: Final = "/settings/"
JUDGES: Final = {
    "syntax",
    "dynamic",
    "resource",
    "listener",
    "description",
    "services",
}
"""Modules beside the declarations that make something of rows. Those that compare values with each
other are not among them: `rules`, and `topic` and `group`, which name what stands behind theirs."""
ALONE: Final = {controller.controller_quorum_bootstrap_servers, node.config_providers}
"""What a node that is its own controller must say like any other, and what is asked for by its name
before there are settings."""


def with_file(**values: str) -> Settings:
    named = {name.replace("_", "."): value for name, value in values.items()}
    return broker_settings(file_layer({**BASE, **named}))


def test_a_plain_broker_has_nothing_to_say() -> None:
    assert notices(with_file()) == ()


def test_a_setting_without_effect_is_accepted_and_told_once() -> None:
    settings = with_file(num_network_threads="8")

    (notice,) = notices(settings)
    assert settings[network.num_network_threads] == 8
    assert "num.network.threads" in notice
    assert "server.properties" in notice


def test_a_setting_of_what_is_not_built_is_told_too() -> None:
    (notice,) = notices(with_file(num_replica_fetchers="4"))
    assert "num.replica.fetchers has no effect yet" in notice
    assert "followers" in notice


def test_what_waits_is_a_row() -> None:
    names = [row.name for row in BROKER_SETTINGS]
    for each in WAITING:
        is_beginning = each.endswith(".")
        assert any(name.startswith(each) if is_beginning else name == each for name in names), each


def test_times_of_delegation_tokens_need_their_key() -> None:
    times = {"delegation_token_expiry_time_ms": "5"}
    (notice,) = notices(with_file(**times))
    assert "has no effect without delegation.token.secret.key" in notice
    with_key = {**times, "delegation_token_secret_key": "k"}
    assert notices(with_file(**with_key)) == ()


def test_every_row_is_read_or_told_of() -> None:
    """A row that no code names, but for where it is declared, must say that it does nothing."""
    read = words_of(lambda path: DECLARATIONS not in path.as_posix() or path.stem in JUDGES)
    known = ALONE | behind_resources(read)
    of_link = (ROOT / "platform/moldau/link/tls.py").read_text(encoding="utf-8")
    silent = sorted(
        row.name
        for name, row in declared_rows()
        if name not in read
        and row.name not in of_link
        and row not in known
        and row.name not in IGNORED
        and waits_for(row.name) is None
        and all(row is not each for each, _ in UNBUILT)
    )
    assert not silent, "\n".join(silent)


def test_what_is_told_to_wait_is_not_read() -> None:
    read = words_of(lambda path: DECLARATIONS not in path.as_posix())
    assert [name for name, row in declared_rows() if name in read and waits_for(row.name)] == []


def behind_resources(read: set[str]) -> set[Row]:
    """The broker's rows that stand behind what is read of a topic or a group, or bound it."""
    rows = {
        row
        for module in (topic, group)
        for name, row in vars(module).items()
        if isinstance(row, Setting) and name in read
    }
    defaults = {**topic.BROKER_DEFAULTS, **group.BROKER_DEFAULTS}
    behind = {default.setting for row, default in defaults.items() if row in rows}
    bounds = {each for row, pair in group.BOUNDS.items() if row in rows for each in pair if each}
    return behind | bounds


def words_of(is_asked: Callable[[Path], bool]) -> set[str]:
    """All names in these modules of the broker."""
    modules = sorted((ROOT / "broker/moldau/broker").rglob("*.py"))
    chosen = [path for path in modules if is_asked(path.relative_to(ROOT))]
    code = "\n".join(path.read_text(encoding="utf-8") for path in chosen)
    return set(re.findall(r"\w+", code))


def declared_rows() -> Iterator[tuple[str, Row]]:
    """Every row of the broker's by the name of its variable."""
    for module in pkgutil.iter_modules(settings_package.__path__):
        found = vars(importlib.import_module(f"{settings_package.__name__}.{module.name}"))
        for name, value in found.items():
            if isinstance(value, Setting) and BROKER_SETTINGS.find(value.name) is value:
                yield name, value


def test_names_without_effect_are_rows() -> None:
    tables = BROKER_SETTINGS, GROUP_SETTINGS
    assert [name for name in IGNORED if not any(table.find(name) for table in tables)] == []


def test_names_that_are_gone_are_no_rows() -> None:
    assert [name for name in (*REMOVED, *FORGOTTEN) if BROKER_SETTINGS.find(name)] == []


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("zookeeper.connect", "process.roles"),
        ("inter.broker.protocol.version", "storage format"),
        ("advertised.host.name", "advertised.listeners"),
    ],
)
def test_a_name_that_is_gone_is_refused_with_what_to_do(name: str, advice: str) -> None:
    with pytest.raises(BadSettings, match=advice):
        broker_settings(file_layer({**BASE, name: "x"}))


def test_a_harmless_name_that_is_gone_is_only_told() -> None:
    settings = broker_settings(file_layer({**BASE, "log.message.downconversion.enable": "true"}))

    (notice,) = notices(settings)
    assert "log.message.downconversion.enable has no effect any more" in notice


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadSettings, match=r"did you mean log\.segment\.bytes"):
        broker_settings(file_layer({**BASE, "log.segement.bytes": "1"}))


def test_a_heartbeat_that_leaves_no_room_for_a_lost_one_is_told() -> None:
    settings = with_file(broker_heartbeat_interval_ms="4501")

    (notice,) = notices(settings)
    assert "broker.heartbeat.interval.ms=4501" in notice
    assert notices(with_file(broker_heartbeat_interval_ms="4500")) == ()


@pytest.mark.parametrize(
    "name",
    [
        "offsets.topic.segment.bytes",
        "share.coordinator.state.topic.segment.bytes",
        "transaction.state.log.segment.bytes",
    ],
)
def test_a_segment_that_no_topic_may_have_is_refused_at_the_start(name: str) -> None:
    lowest = 1_048_576
    with pytest.raises(BadSettings, match=re.escape(name)) as refused:
        with_file(**{name: str(lowest - 1)})
    assert str(lowest) in str(refused.value)
    with_file(**{name: str(lowest)})
    assert topic.segment_bytes.check is not None
    assert str(lowest) in topic.segment_bytes.check.allowed


def test_the_earlier_name_of_the_id_counts_as_today() -> None:
    file = {name: value for name, value in BASE.items() if name != "node.id"}
    settings = broker_settings(file_layer({**file, "broker.id": "7"}))

    assert (settings[node.node_id], settings[node.broker_id]) == (7, 7)
    assert str(settings.source(node.node_id)) == "server.properties"


def test_a_plain_broker_asks_for_nothing_that_is_missing() -> None:
    assert unbuilt(with_file()) == ()


@pytest.mark.parametrize("row", [row for row, _ in UNBUILT], ids=lambda row: row.name)
def test_what_is_not_built_is_not_ignored(row: Row) -> None:
    value = "true" if row.kind is BOOLEAN else "something"
    if row is tiered.remote_storage_endpoint:
        value = "http://localhost:9000"

    settings = broker_settings(file_layer({**BASE, row.name: value}))
    (missing,) = unbuilt(settings)
    assert row.name in missing
    assert value not in missing or row.kind is BOOLEAN
    assert [each for each in notices(settings) if row.name in each] == []
