"""The hosts of access rules: which are networks, and which clients are in them."""

from __future__ import annotations

import pytest

from moldau.protocol.acl_hosts import host_matches, is_network, network_of
from tests.protocol.network_table import CLIENTS, MALFORMED, NETWORKS


@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_has_the_clients_that_kafka_finds_in_it(network: str) -> None:
    assert is_network(network)
    assert network_of(network) is not None
    assert "".join(str(int(host_matches(network, each))) for each in CLIENTS) == NETWORKS[network]


@pytest.mark.parametrize("text", MALFORMED)
def test_what_is_no_network_has_no_client(text: str) -> None:
    assert is_network(text)
    assert network_of(text) is None
    assert not any(host_matches(text, each) for each in CLIENTS)


def test_an_address_is_compared_as_it_is_written() -> None:
    assert not is_network("10.0.0.1")
    assert host_matches("10.0.0.1", "10.0.0.1")
    assert host_matches("*", "10.0.0.1")
    assert not host_matches("::1", "0:0:0:0:0:0:0:1"), "nor does Kafka know them as one"
