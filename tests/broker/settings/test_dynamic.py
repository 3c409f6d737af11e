"""What is stored for running brokers is applied where it can be, and never keeps one down."""

from __future__ import annotations

import pytest

from moldau.broker.settings import (
    BROKER_SETTINGS,
    broker_settings,
    dynamic_layers,
    dynamic_refusals,
    log,
    network,
)
from moldau.broker.settings.dynamic import listener_row
from tests.broker.settings.cases import BASE
from tests.broker.settings.ours import file_layer


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
