"""The pytest plugin: a broker for a whole test session, and a new topic name for each test.

pytest loads it wherever moldau-broker is installed, so importing it must cost nothing: the first
test that uses the fixture imports the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

import pytest

from moldau.deferred import deferred_pattern

if TYPE_CHECKING:
    from moldau.testing.threaded import SyncEmbeddedBroker

_NOT_IN_A_TOPIC: Final = deferred_pattern(r"[^A-Za-z0-9._-]+")
_NAME_LENGTH: Final = 200
_numbers = count(1)


@pytest.fixture(scope="session")
def moldau_broker() -> Iterator[SyncEmbeddedBroker]:
    """Start one broker for all tests of this process, on a free port of this machine."""
    from moldau.testing.threaded import SyncEmbeddedBroker

    with SyncEmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def moldau_topic(request: pytest.FixtureRequest) -> str:
    """Return a topic name that no other test of this session gets. The topic does not exist yet."""
    name = _NOT_IN_A_TOPIC.sub("-", request.node.name).strip("-.")[:_NAME_LENGTH]
    return f"{name}-{next(_numbers)}"
