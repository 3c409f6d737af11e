"""Our index of APIs against Kafka's enum of API keys, as golden data keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.protocol import messages
from moldau.protocol.headers import request_header_version, response_header_version
from tests.protocol.oracle import golden

_LIVING = [row for row in golden.apis() if "oldest" in row]
_by_name = pytest.mark.parametrize("row", _LIVING, ids=lambda row: row["name"])


def test_keys_and_names_are_kafkas() -> None:
    ours = {entry.key: entry.name for entry in messages.API.values()}
    assert ours == {row["key"]: row["name"] for row in _LIVING}


def test_keys_without_versions_stay_reserved() -> None:
    dead = {row["key"]: row["name"] for row in golden.apis() if "oldest" not in row}
    assert dict(messages.RESERVED) == dead


@_by_name
def test_versions_and_listeners_are_kafkas(row: dict[str, Any]) -> None:
    request = messages.request_class(row["key"]).spec
    response = messages.response_class(row["key"]).spec
    assert (request.key, response.key) == (row["key"], row["key"])
    assert request.versions == response.versions == (row["oldest"], row["latest"])
    assert request.stable_versions.last == row["latest_stable"]
    assert set(request.listeners) == set(row["listeners"])


@_by_name
def test_header_versions_are_kafkas(row: dict[str, Any]) -> None:
    key, versions = row["key"], range(row["oldest"], row["latest"] + 1)
    assert [request_header_version(key, version) for version in versions] == row["request_headers"]
    assert [response_header_version(key, version) for version in versions] == row[
        "response_headers"
    ]
