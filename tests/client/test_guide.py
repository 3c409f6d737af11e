"""docs/client.md, then docs/client-reference.md: every program, in order, against a real broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.client.guides import forget_topics, programs, run_programs
from tests.peers.kafka_broker import KafkaBroker
from tests.peers.kafka_broker import kafka_broker as kafka_broker

GUIDES = ("client.md", "client-reference.md")
ADDRESS = "localhost:9092"


def test_the_guides_have_programs_that_name_the_address() -> None:
    found = [programs(guide) for guide in GUIDES]
    assert [len(each) for each in found] == [8, 6]
    assert all(ADDRESS in program for each in found for program in each)


def test_programs_that_run_side_by_side_share_no_group_and_write_different_topics() -> None:
    page = "\n".join(programs("exactly-once.md"))
    groups = re.findall(r'(?:group_id=|Streams\()"(.+?)"', page)
    written = re.findall(r'(?:send_many\(|\.to\(|\("topic", )"(.+?)"', page)
    assert (len(groups), len(written)) == (2, 3)
    assert len({*groups, *written}) == 5


@pytest.mark.real
def test_the_guides_programs_run(
    kafka_broker: KafkaBroker,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)  # a program writes a file
    pytest.importorskip("pyarrow", reason="a program of the guide shows Arrow data")
    forget_topics(kafka_broker.bootstrap_servers, ("orders", "bills", "copies"))
    for guide in GUIDES:
        run_programs(guide, {ADDRESS: kafka_broker.bootstrap_servers})
    told = capsys.readouterr().out
    assert "Sent(topic='orders'" in told
    assert "reads now ['orders-0', 'orders-1', 'orders-2', 'orders-3']" in told
    assert "gives up" in told
    assert "records in columns" in told
    assert "generation 1 says ahoj\nleader: True\nstops greeting" in told
    assert "billing Empty classic" in told
    assert "nightly has committed" in told
    assert "orders 0 1000000000" in told
    assert "stored at 0" in told
    assert "stored 3" in told
