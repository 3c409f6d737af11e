"""Which addresses are this machine's own alone."""

from __future__ import annotations

import pytest

from moldau.broker.main.exposure import exposed
from moldau.broker.settings import Listener


@pytest.mark.parametrize(
    ("host", "is_exposed"),
    [
        ("localhost", False),
        ("127.0.0.1", False),
        ("127.1.2.3", False),
        ("::1", False),
        ("", True),
        ("0.0.0.0", True),  # noqa: S104 (as people write it)
        ("::", True),
        ("10.0.0.1", True),
        ("kafka.example.com", True),
    ],
)
def test_a_listener_is_exposed_unless_only_this_machine_reaches_it(
    host: str, is_exposed: bool
) -> None:
    listener = Listener("OUT", host, 9092, "PLAINTEXT")
    assert exposed([listener]) == ([listener] if is_exposed else [])


def test_what_is_encrypted_is_not() -> None:
    assert exposed([Listener("OUT", "", 9092, "SASL_SSL")]) == []
