"""The languages inside values: what is read is what was written, and nothing crashes a parser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.broker.settings.description import java_double
from moldau.broker.settings.syntax import (
    Address,
    Voter,
    parse_address,
    parse_endpoint,
    parse_host_limits,
    parse_map,
    parse_offset_reset,
    parse_protocol_map,
    parse_selector,
    parse_voter,
)

PARSERS: list[Callable[[str], object]] = [
    parse_address,
    parse_endpoint,
    parse_host_limits,
    parse_map,
    parse_offset_reset,
    parse_protocol_map,
    parse_selector,
    parse_voter,
]
HOSTS = st.from_regex(r"[a-z0-9.-]{1,12}", fullmatch=True)
PORTS = st.integers(0, 65_535)


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text(alphabet="a1Z:/@[]=,.-+ PTDHMS*(\\\n\u00e9", max_size=24))
def test_any_text_is_read_or_refused(parse: Callable[[str], object], text: str) -> None:
    assert parse(text) == parse(text)


@given(host=HOSTS, port=PORTS)
def test_addresses_are_read_as_written(host: str, port: int) -> None:
    assert parse_address(f"{host}:{port}") == Address(host, port)
    assert parse_endpoint(f"inside://{host}:{port}") == ("INSIDE", Address(host, port))
    assert parse_voter(f"3@{host}:{port}") == Voter(3, Address(host, port))


@pytest.mark.parametrize("text", ["[::1]:9092", "::1:9092"])
def test_an_ipv6_host_may_stand_in_brackets(text: str) -> None:
    assert parse_address(text) == Address("::1", 9092)


@pytest.mark.parametrize("text", ["host:65536", "host:-1", "host", "ho st:1", "host:1\n"])
def test_what_is_no_address_is_refused(text: str) -> None:
    assert parse_address(text) is None
    assert parse_endpoint(f"A://{text}") is None


def test_limits_of_hosts_and_of_ipv6_addresses() -> None:
    assert parse_host_limits("a:1, ::1:2,a:3") == {"a": 3, "::1": 2}


def test_names_of_a_protocol_map_are_upper_case() -> None:
    assert parse_protocol_map("inside:plaintext") == {"INSIDE": "PLAINTEXT"}


def test_a_selector_is_a_property_and_an_expression() -> None:
    assert parse_selector("client_id = a.* ") == ("client_id", re.compile("a.*"))


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("PT1H", 3_600_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("PT1H-30M", 1_800_000),
        ("PT0.0009S", 0),
        ("-PT-1S", 1000),
    ],
)
def test_durations_are_read_as_java_reads_them(text: str, milliseconds: int) -> None:
    assert parse_offset_reset(f"by_duration:{text}") == ("by_duration", milliseconds)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.5, "0.5"),
        (-2.0, "-2.0"),
        (0.001, "0.001"),
        (0.0009, "9.0E-4"),
        (9_999_999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123_456_789.5, "1.234567895E8"),
        (-1.5e-10, "-1.5E-10"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text
