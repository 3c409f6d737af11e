"""docs/admin.md: every program in it against real brokers, and every method in its table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

import pytest

from moldau.client import Admin
from tests.peers.kafka_broker import kafka_broker as kafka_broker

GUIDE = Path(__file__).parents[2] / "docs" / "admin.md"
ADDRESS = "localhost:9092"


class Broker(Protocol):
    """Any broker that runs."""

    @property
    def bootstrap_servers(self) -> str: ...


@pytest.fixture(params=["apache-kafka", "moldau"])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Apache Kafka, and then moldau's own."""
    name = "kafka_broker" if request.param == "apache-kafka" else "moldau_broker"
    found: Broker = request.getfixturevalue(name)
    return found


def text() -> str:
    return GUIDE.read_text(encoding="utf-8")


def test_the_table_has_each_method_once() -> None:
    methods = {name for name in dir(Admin) if not name.startswith("_")}
    table = "".join(line for line in text().splitlines() if line.startswith("| `kafka"))
    named = re.findall(r"`([a-z_]+)`", table)
    assert sorted(named) == sorted(methods - {"start", "aclose"})


@pytest.mark.real
def test_the_guides_programs_run(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    programs = re.findall(r"```python\n(.*?)```", text(), re.DOTALL)
    assert len(programs) == 3
    for number, program in enumerate(programs):
        whole = program.replace(ADDRESS, broker.bootstrap_servers)
        exec(compile(whole, f"admin.md, program {number + 1}", "exec"), {})  # noqa: S102
    told = capsys.readouterr().out
    assert "offset=2, " in told
    assert "offset=3, " in told
    assert "sensors 3\n" in told
    assert "nowhere UNKNOWN_TOPIC_OR_PARTITION" in told
    assert "retention.ms 86400000 TOPIC" in told
    assert "cleanup.policy delete,compact TOPIC" in told
    assert "audit" in told
    assert "in service" in told
    assert "led by 1 [1]" in told
    assert "'metadata.version': " in told
