"""What is stored for running brokers is applied where it can be, and never keeps one down."""

from __future__ import annotations

import pytest

from moldau.broker.settings import (
    BROKER_SETTINGS,
    broker_settings,
    connection_refusals,
    dynamic_layers,
    dynamic_notices,
    dynamic_refusals,
    log,
    network,
    thread_refusals,
)
from moldau.broker.settings.dynamic import listener_row
from tests.broker.settings.cases import BASE
from tests.broker.settings.ours import file_layer

OF_LISTENER = "listener.name.plaintext.num.network.threads"


def test_one_broker_wins_over_all_and_all_over_the_file() -> None:
    settings = broker_settings(
        file_layer({**BASE, "log.retention.ms": "1", "max.connections": "1"})
    )
    changed = settings.overlaid(
        *dynamic_layers({"log.retention.ms": "2", "max.connections": "2"}, {"max.connections": "3"})
    )

    assert changed[log.log_retention_ms] == 2
    assert changed[network.max_connections] == 3


def test_stored_values_that_cannot_be_used_are_left_out() -> None:
    everybody, here = dynamic_layers(
        {"max.connections": "many", "no.such.setting": "1", "listeners": "PLAINTEXT://:1"},
        {"node.id": "9", "ssl.keystore.location": "/k", "max.connections": "3"},
    )

    assert everybody == ()
    assert [given.name for given in here] == ["max.connections"]


def test_a_listeners_own_settings_are_kept_for_it() -> None:
    stored = {"listener.name.external.ssl.keystore.location": "/k"}
    settings = broker_settings(file_layer(BASE)).overlaid(*dynamic_layers({}, stored))

    assert settings.others["listener.name.external.ssl.keystore.location"].value == "/k"


def test_a_refusal_does_not_show_a_secret() -> None:
    name = "listener.name.external.ssl.keystore.password"
    assert dynamic_refusals({name: "hunter2"}, one_broker=True) == ()

    (refusal,) = dynamic_refusals({name: "hunter2"}, one_broker=False)
    assert "hunter2" not in refusal


def test_a_refusal_shows_what_would_be_allowed() -> None:
    (refusal,) = dynamic_refusals({"max.connections": "-1"}, one_broker=False)

    assert "'-1'" in refusal
    assert "0 or more" in refusal


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("listener.name.a.ssl.keystore.location", "ssl.keystore.location"),
        ("listener.name.a.plain.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.a.scram-sha-256.sasl.jaas.config", "sasl.jaas.config"),
        ("listener.name.a.connections.max.reauth.ms", "connections.max.reauth.ms"),
        ("listener.name.a.no.such.setting", None),
        ("ssl.keystore.location", None),
    ],
)
def test_the_row_behind_a_listeners_setting(name: str, row: str | None) -> None:
    assert listener_row(name) is (None if row is None else BROKER_SETTINGS.find(row))


def test_what_does_nothing_is_told_with_whose_it_is() -> None:
    everybody, here = dynamic_notices(
        {"num.network.threads": "4", "log.retention.ms": "5"},
        {"listener.name.plaintext.num.network.threads": "4", "max.connections": "5"},
    )

    assert everybody.startswith("num.network.threads has no effect here: ")
    assert everybody.endswith("(dynamic setting of all brokers)")
    assert here.startswith("listener.name.plaintext.num.network.threads has no effect here: ")
    assert here.endswith("(dynamic setting of this broker)")
    assert dynamic_notices({}, {"metric.reporters": ""})[0].startswith("metric.reporters has no e")


def test_what_is_left_out_is_told_without_secrets() -> None:
    (reporters,) = dynamic_notices({"metric.reporters": "x.y"}, {})
    assert "'x.y'" in reporters
    assert "left out" in reporters

    (secret,) = dynamic_notices({"listener.name.a.ssl.keystore.password": "hunter2"}, {})
    assert "hunter2" not in secret


def test_thousands_of_unknown_names_are_one_line() -> None:
    (notice,) = dynamic_notices({f"own.{number}": "1" for number in range(10_000)}, {})

    assert "own.0, own.1" in notice
    assert len(notice) < 200


def test_a_notice_says_when_listeners_count() -> None:
    (notice,) = dynamic_notices({}, {"listeners": "A://:1"})

    assert notice.startswith("listeners: new ones open at once")


@pytest.mark.parametrize(
    ("file", "before", "after", "is_refused"),
    [
        ({}, {}, {"num.io.threads": "16"}, False),
        ({}, {}, {"num.io.threads": "17"}, True),
        ({"num.io.threads": "9"}, {}, {"num.io.threads": "18"}, False),
        ({"num.io.threads": "9"}, {}, {"num.io.threads": " 19 "}, True),
        ({"num.io.threads": "9"}, {}, {"num.io.threads": "3"}, True),
        ({"num.io.threads": "9"}, {}, {"num.io.threads": "many"}, False),
        ({"num.io.threads": "9"}, {"num.io.threads": "18"}, {"num.io.threads": "36"}, False),
        ({"num.io.threads": "9"}, {"num.io.threads": "19"}, {}, False),
        ({"num.io.threads": "9"}, {"num.io.threads": "20"}, {}, True),
        ({OF_LISTENER: "8"}, {}, {OF_LISTENER: "16"}, False),
        ({OF_LISTENER: "8"}, {}, {"num.network.threads": "100"}, False),
        ({"num.network.threads": "8"}, {}, {OF_LISTENER: "17"}, True),
        ({"num.network.threads": "8"}, {OF_LISTENER: "16"}, {OF_LISTENER: "32"}, False),
    ],
)
def test_numbers_of_threads_are_halved_or_doubled_at_once(
    file: dict[str, str], before: dict[str, str], after: dict[str, str], is_refused: bool
) -> None:
    started = broker_settings(file_layer({**BASE, **file}))
    now = started.overlaid(*dynamic_layers({}, before))

    for settings in (started, now):
        assert bool(thread_refusals(settings, ({}, before), ({}, after))) is is_refused


@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
@pytest.mark.parametrize(
    ("file", "before", "after", "is_refused"),
    [
        ({}, {}, {"": "0"}, True),
        ({}, {}, {"": "1"}, False),
        ({}, {}, {"listener.name.plaintext.": "0"}, True),
        ({}, {}, {"listener.name.elsewhere.": "0"}, False),
        ({}, {}, {"listener.name.plaintext.": "1", "": "0"}, False),
        ({}, {"listener.name.plaintext.": "1", "": "0"}, {"": "0"}, True),
        ({"": "0"}, {}, {}, False),
        ({"": "0"}, {"": "1"}, {}, True),
    ],
)
def test_a_limit_that_lets_nobody_in_is_refused_where_it_is_in_force(
    name: str,
    file: dict[str, str],
    before: dict[str, str],
    after: dict[str, str],
    is_refused: bool,
) -> None:
    file, before, after = (
        {f"{prefix}{name}": value for prefix, value in given.items()}
        for given in (file, before, after)
    )
    started = broker_settings(file_layer({**BASE, **file}))
    for settings in (started, started.overlaid(*dynamic_layers({}, before))):
        assert bool(connection_refusals(settings, ({}, before), ({}, after))) is is_refused
