"""The context of a request: hosts as the JVM shows them, and the deadline."""

from __future__ import annotations

import pytest

from moldau.broker.decision.context import (
    ANONYMOUS,
    Principal,
    RequestContext,
    of_node,
    packed_host,
    shown_host,
    unpacked_host,
)

CONTEXT = RequestContext("app", "/10.0.0.7", 7, "PLAINTEXT")


@pytest.mark.parametrize(
    ("address", "shown", "packed"),
    [
        ("127.0.0.1", "/127.0.0.1", "7f000001"),
        ("::ffff:10.0.0.7", "/10.0.0.7", "0a000007"),
        ("::1", "/0:0:0:0:0:0:0:1", "00000000000000000000000000000001"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1", "fe800000000000000000000000000001"),
    ],
)
def test_a_host_goes_through_an_envelope_unchanged(address: str, shown: str, packed: str) -> None:
    assert shown_host(address) == shown
    assert packed_host(shown).hex() == packed
    assert unpacked_host(bytes.fromhex(packed)) == shown


def test_a_mapped_address_is_shown_as_its_ipv4_address() -> None:
    """As by InetAddress.getByAddress."""
    assert unpacked_host(bytes(10) + b"\xff\xff\x0a\0\0\7") == "/10.0.0.7"


def test_a_host_without_an_ip_address_is_packed_as_any() -> None:
    assert shown_host("b1") == "/b1"
    assert packed_host("/b1") == packed_host("") == bytes(4)


@pytest.mark.parametrize("size", [0, 3, 5, 15, 17])
def test_other_lengths_are_no_hosts(size: int) -> None:
    with pytest.raises(ValueError, match="address"):
        unpacked_host(bytes(size))


def test_a_request_is_over_when_its_timeout_has_passed() -> None:
    limited = CONTEXT.with_timeout(30, 1000)
    assert limited.deadline_ms == 1030
    assert not limited.is_over(1029)
    assert limited.is_over(1030)
    assert limited._replace(deadline_ms=None) == CONTEXT


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_without_a_positive_timeout_a_request_is_over_at_once(timeout_ms: int) -> None:
    assert CONTEXT.with_timeout(timeout_ms, 1000).is_over(1000)


def test_a_request_without_a_timeout_is_never_over() -> None:
    assert not CONTEXT.is_over(2**63)


def test_a_nodes_own_request_says_so() -> None:
    own = of_node(3, 1)
    assert (own.client_id, own.version, own.deadline_ms) == ("3", 1, None)
    assert str(own.principal) == "Node:3"
    assert own.principal != ANONYMOUS


def test_a_principal_is_written_as_in_acls() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert str(Principal("User", "CN=a,O=b")) == "User:CN=a,O=b"
