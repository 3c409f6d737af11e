"""Connectors: the settings that are shown of them."""

from __future__ import annotations

import pytest

from moldau.config.hiding import HIDDEN
from moldau.operations.connectors import exported


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("topics", "orders", "orders"),
        ("connection.password", "geheim", HIDDEN),
        ("gcs.credentials.json", "geheim", HIDDEN),
        ("snowflake.private.key.passphrase", "geheim", HIDDEN),
        ("connection.url", "http://ann:geheim@host/db", f"http://{HIDDEN}@host/db"),
        ("connection.password", "${env:PASSWORD}", "${env:PASSWORD}"),
    ],
)
def test_an_export_has_no_secret_of_a_worker_that_shows_all(
    name: str, value: str, shown: str
) -> None:
    assert exported({"sink": {"name": "sink", name: value}}) == {"sink": {name: shown}}
