"""docs/serdes.md: every program in it, in order, against a real broker and a real registry."""

from __future__ import annotations

import pytest

from moldau.client.serdes.resolve import FORMATS
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import programs, run_programs, text_of
from tests.client.serdes.apicurio import Apicurio
from tests.client.serdes.apicurio import schema_registry as schema_registry

GUIDE = "serdes.md"
BROKER = "localhost:9092"
REGISTRY = "http://localhost:8081"


def test_the_guide_has_programs_that_name_their_addresses() -> None:
    assert len(programs(GUIDE)) == 5
    assert all(BROKER in program or REGISTRY in program for program in programs(GUIDE))


def test_the_guide_knows_every_format() -> None:
    assert {name for name in FORMATS if f"`{name}`" not in text_of(GUIDE)} == {"void"}


@pytest.mark.real
def test_the_guides_programs_run(
    moldau_broker: SyncEmbeddedBroker,
    schema_registry: Apicurio,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_programs(GUIDE, {BROKER: moldau_broker.bootstrap_servers, REGISTRY: schema_registry.url})
    told = capsys.readouterr().out
    assert "7 {'page': '/', 'seconds': [1, 2.5]}" in told
    assert "Order(id=1, customer='ann', total=12.5)" in told
    assert "skipped numbers 0 2\n[1, 2, 4]" in told
    assert "Order(id=1, customer='ann')\nOrder(id=2, customer='ben')" in told
    assert "True\n[1]" in told
