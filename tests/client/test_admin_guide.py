"""docs/admin.md: every program in it against real brokers, and every method in its table."""

from __future__ import annotations

import re

import pytest

from moldau.client import Admin
from tests.client.guides import programs, run_programs, text_of
from tests.peers.either_broker import Broker
from tests.peers.either_broker import broker as broker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

GUIDE = "admin.md"
ADDRESS = "localhost:9092"


def test_the_table_has_each_method_once() -> None:
    methods = {name for name in dir(Admin) if not name.startswith("_")}
    table = "".join(line for line in text_of(GUIDE).splitlines() if line.startswith("| `kafka"))
    named = re.findall(r"`([a-z_]+)`", table)
    assert sorted(named) == sorted(methods - {"start", "aclose"})


@pytest.mark.real
def test_the_guides_programs_run(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(programs(GUIDE)) == 3
    run_programs(GUIDE, {ADDRESS: broker.bootstrap_servers})
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
