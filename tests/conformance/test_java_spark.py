"""Spark's own Kafka source and sink on our broker, and ours beside it: the same rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.testing import SyncEmbeddedBroker
from tests.connectors.spark.runners import need_spark
from tests.peers.apache_kafka import PeerMissing
from tests.peers.spark_kafka import stock_jars
from tests.spark.topics import make_topic
from tests.suites import may_use_java

pytestmark = pytest.mark.real

PROGRAM = "tests.conformance.programs.stock_spark"
ROOT = Path(__file__).parents[2]


def test_both_formats_read_and_write_the_same(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    need_spark()
    try:
        jars = stock_jars()
    except PeerMissing as missing:
        pytest.skip(f"Spark's Kafka source cannot be had here: {missing}")
    may_use_java()
    make_topic(moldau_broker, moldau_topic, 2)
    words = (moldau_broker.bootstrap_servers, moldau_topic, str(tmp_path))

    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", PROGRAM, *words, ",".join(map(str, jars))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    lines = [each for each in done.stdout.splitlines() if each.startswith("FOUND ")]
    assert lines, done.stdout[-2000:] + done.stderr[-4000:]
    found = json.loads(lines[0].removeprefix("FOUND "))
    assert found["schemas"][0] == found["schemas"][1]
    assert found["rows"] == [400, 400]
    assert (found["only_stock"], found["only_ours"]) == (0, 0)
    assert found["ranges"] == [40, 40]
    assert found["streams"][:2] == [[[400, 400], [600, 600]], [[800, 800], [1000, 1000]]]
    there, ours, closed, plain, back = found["streams"][2]
    assert (there, ours) == ([1200, 1200], [1400, 1400])
    assert "ids" in closed, "Spark's own source cannot read the ids of topics"
    assert (plain, back) == ([1600, 1600], [1800, 1800])
    for name, (stock, ours) in found["cases"].items():
        assert stock == ours, name
    ours = {name: ours for name, (_, ours) in found["cases"].items()}
    assert ours["codecs"] == [1200, 1200]
    assert ours["committed"] == [
        [[0, 22], [1, 3]],
        [[0, 5]],
        [[0, each] for each in range(5)],
        [[0, each] for each in (*range(5), *range(14, 24))],
    ]
    assert ours["latest"] == [
        *([0, each] for each in range(5, 9)),
        *([1, each] for each in range(6)),
    ]
    failing = {name for name, each in ours.items() if each == "fails"}
    assert failing == {"late timestamp", "offsets after the end"}
    assert [name for name, each in ours.items() if "fails" in each[1:]] == [
        "retention", "recreated",
    ]  # fmt: skip
