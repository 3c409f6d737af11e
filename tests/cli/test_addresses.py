"""HOST:PORT of options and settings."""

from __future__ import annotations

import pytest

from moldau.cli.addresses import host_and_port
from moldau.cli.command import UsageError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:0", ("::1", 0)),
        ("node-1:65535", ("node-1", 65_535)),
        (":8080", ("127.0.0.1", 8080)),
    ],
)
def test_an_address_without_a_host_is_on_this_machine_alone(
    text: str, found: tuple[str, int]
) -> None:
    assert host_and_port(text, "--listen") == found


@pytest.mark.parametrize("text", ["", "node-1", "node-1:", "node-1:x80", "a:65536", "a:-1"])
def test_what_is_no_address_is_told_with_its_option(text: str) -> None:
    with pytest.raises(UsageError, match="--console takes HOST:PORT, not"):
        host_and_port(text, "--console")
