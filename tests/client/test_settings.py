"""Settings and addresses of clients: Kafka's names, refused where they make no sense."""

from __future__ import annotations

import pytest

from moldau.client import Producer
from moldau.client import settings as rows
from moldau.client.addresses import Address, parse_address
from moldau.config import BadSettings
from moldau.errors import ConfigError
from tests.client.page import PAGE, render


def test_mappings_and_keywords_mean_the_same_and_keywords_win() -> None:
    given = {"bootstrap.servers": "a:1,b:2", "batch.size": "10"}
    settings = rows.resolve(rows.PRODUCER_SETTINGS, given, {"batch_size": 20, "linger_ms": 0})
    assert settings[rows.batch_size] == 20
    assert settings[rows.linger_ms] == 0
    assert rows.addresses(settings) == (Address("a", 1), Address("b", 2))
    listed = rows.resolve(rows.ADMIN_SETTINGS, {}, {"bootstrap_servers": ["a:1", "b:2"]})
    assert rows.addresses(listed) == (Address("a", 1), Address("b", 2))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap_servers": "nohost"}, "host:port"),
        ({"bootstrap_servers": "a:1", "batch_siz": 5}, "batch.size"),
        ({"bootstrap_servers": "a:1", "acks": "2"}, "acks"),
        ({"bootstrap_servers": "a:1", "acks": "1", "enable_idempotence": True}, "acks=all"),
        (
            {
                "bootstrap_servers": "a:1",
                "enable_idempotence": True,
                "max_in_flight_requests_per_connection": 6,
            },
            "5 or less",
        ),
        ({"bootstrap_servers": "a:1", "delivery_timeout_ms": 10}, "request.timeout.ms"),
    ],
)
def test_bad_settings_are_told(options: dict[str, object], told: str) -> None:
    with pytest.raises(BadSettings, match=told):
        Producer(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, True), ({"acks": "1"}, False), ({"max_in_flight_requests_per_connection": 6}, False)],
)
def test_idempotence_is_on_unless_something_rules_it_out(
    options: dict[str, object], expected: bool
) -> None:
    given = {"bootstrap_servers": "a:1", **options}
    assert rows.idempotent(rows.resolve(rows.PRODUCER_SETTINGS, {}, given)) is expected


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9092", Address("localhost", 9092)),
        (" kafka.example:1 ", Address("kafka.example", 1)),
        ("[::1]:9092", Address("::1", 9092)),
        ("PLAINTEXT://a:1", Address("a", 1)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "a", "a:", ":1", "a:0", "a:65536", "a:b", "::1:9092", "SSL://a:1", "a:000001"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_address(text)


def test_the_page_is_the_one_that_the_rows_make() -> None:
    """python -m tests.client.page writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == render()
