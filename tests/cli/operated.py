"""Three real nodes, one cluster for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.testing import Cluster
from tests.cli.shell import Shell
from tests.peers.eventually import eventually

NODES = 3
Partition = dict[str, Any]


def partitions_of(shell: Shell, topic: str) -> list[Partition]:
    """As soon as the broker that is asked has heard of the topic."""
    found: list[Partition] = []

    def look() -> bool:
        done = shell("topic", "describe", topic, "--json")
        if done.code == 0:
            found[:] = done.json[0]["partitions"]
        return done.code == 0

    eventually(look)
    return found


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with Cluster(brokers=NODES) as cluster:
        yield cluster
