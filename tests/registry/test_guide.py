"""docs/registry.md: every program in it, in order, against a broker and our registry."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import programs, run_programs
from tests.registry.served import process

GUIDE = "registry.md"
BROKER = "localhost:9092"
REGISTRY = "http://localhost:8081"


@pytest.fixture
def registry(moldau_broker: SyncEmbeddedBroker) -> Iterator[str]:
    with process(moldau_broker.bootstrap_servers) as (_, url):
        yield url


def test_the_guide_has_programs() -> None:
    assert len(programs(GUIDE)) == 2


@pytest.mark.real
def test_the_guides_programs_run(
    moldau_broker: SyncEmbeddedBroker, registry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_programs(GUIDE, {BROKER: moldau_broker.bootstrap_servers, REGISTRY: registry})
    told = capsys.readouterr().out
    assert "['registered-orders-value']\n{'id': 7}" in told
    assert "False {errorType:'READER_FIELD_MISSING_DEFAULT_VALUE'" in told
