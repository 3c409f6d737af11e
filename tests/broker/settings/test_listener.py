"""Listeners put together from several settings; which are refused, the combinations say."""

from __future__ import annotations

import pytest

from moldau.broker.settings import Listener, Listeners, broker_settings, read_listeners
from moldau.config import BadSettings
from tests.broker.settings.cases import BASE
from tests.broker.settings.ours import file_layer


def listeners(**values: str) -> Listeners:
    named = {name.replace("_", "."): value for name, value in values.items()}
    return read_listeners(broker_settings(file_layer({**BASE, **named})))


def test_clients_are_told_where_brokers_listen() -> None:
    found = listeners(listeners="PLAINTEXT://here:9092,CONTROLLER://:9093")

    told = (Listener("PLAINTEXT", "here", 9092, "PLAINTEXT"),)
    assert found.advertised_broker == found.of_broker == told
    assert found.of_controller == (Listener("CONTROLLER", "", 9093, "PLAINTEXT"),)
    assert found.inter_broker == "PLAINTEXT"


def test_clients_are_told_what_is_advertised_instead() -> None:
    found = listeners(advertised_listeners="PLAINTEXT://[2001:db8::1]:19092")

    assert found.advertised_broker == (Listener("PLAINTEXT", "2001:db8::1", 19092, "PLAINTEXT"),)
    assert found.of_broker == (Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),)


def test_a_controller_is_advertised_where_the_fixed_voters_have_it() -> None:
    found = listeners(controller_quorum_voters="1@c1:19093,2@c2:19093")

    assert found.advertised_controller == (Listener("CONTROLLER", "c1", 19093, "PLAINTEXT"),)


def test_a_controller_on_every_address_is_advertised_without_a_host() -> None:
    found = listeners(listeners="PLAINTEXT://:9092,CONTROLLER://0.0.0.0:9093")

    assert found.advertised_controller == (Listener("CONTROLLER", "", 9093, "PLAINTEXT"),)


def test_an_own_name_has_the_protocol_that_the_map_says() -> None:
    found = listeners(
        listeners="INSIDE://:9092,OUTSIDE://:9094,CONTROLLER://:9093",
        listener_security_protocol_map="INSIDE:PLAINTEXT,outside:SSL,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="inside",
    )

    assert [each.security_protocol for each in found.of_broker] == ["PLAINTEXT", "SSL"]
    assert (found.inter_broker, found.inter_broker_protocol) == ("INSIDE", "PLAINTEXT")


def test_a_conflict_names_the_listener() -> None:
    with pytest.raises(BadSettings, match="OTHER"):
        listeners(listeners="PLAINTEXT://:9092,CONTROLLER://:9093,OTHER://:9094")
