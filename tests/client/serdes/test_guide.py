"""docs/serdes.md: every program in it, in order, against a real broker and a real registry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from moldau.client.serdes.resolve import FORMATS
from moldau.testing import SyncEmbeddedBroker
from tests.client.serdes.apicurio import Apicurio
from tests.client.serdes.apicurio import schema_registry as schema_registry

GUIDE = Path(__file__).parents[3] / "docs" / "serdes.md"
BROKER = "localhost:9092"
REGISTRY = "http://localhost:8081"


def text() -> str:
    return GUIDE.read_text(encoding="utf-8")


def programs() -> list[str]:
    return re.findall(r"```python\n(.*?)```", text(), re.DOTALL)


def test_the_guide_has_programs_that_name_their_addresses() -> None:
    assert len(programs()) == 5
    assert all(BROKER in program or REGISTRY in program for program in programs())


def test_the_guide_knows_every_format() -> None:
    assert {name for name in FORMATS if f"`{name}`" not in text()} == {"void"}


@pytest.mark.real
def test_the_guides_programs_run(
    moldau_broker: SyncEmbeddedBroker,
    schema_registry: Apicurio,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for number, program in enumerate(programs()):
        whole = program.replace(BROKER, moldau_broker.bootstrap_servers)
        whole = whole.replace(REGISTRY, schema_registry.url)
        exec(compile(whole, f"serdes.md, program {number + 1}", "exec"), {})  # noqa: S102
    told = capsys.readouterr().out
    assert "7 {'page': '/', 'seconds': [1, 2.5]}" in told
    assert "Order(id=1, customer='ann', total=12.5)" in told
    assert "skipped numbers 0 2\n[1, 2, 4]" in told
    assert "Order(id=1, customer='ann')\nOrder(id=2, customer='ben')" in told
    assert "True\n[1]" in told
