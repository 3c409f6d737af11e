"""docs/spark.md: its programs run, its config is good, and its keys are those of the connector."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import run_programs, text_of
from tests.connect.processes import command, wait_until
from tests.connectors.spark.runners import SMALL, need_spark, orders
from tests.spark.topics import make_topic, send

GUIDE = "spark.md"


@pytest.mark.real
def test_the_programs_of_the_guide_run(
    spark: Any,
    moldau_broker: SyncEmbeddedBroker,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    make_topic(moldau_broker, "spark-orders", 3)
    make_topic(moldau_broker, "spark-counts", 1)

    run_programs(GUIDE, {"localhost:9092": moldau_broker.bootstrap_servers})

    told = capsys.readouterr().out
    assert "1000 records: key, value, topic, partition" in told
    assert "249750.0" in told
    assert "1000 rows in" in told
    assert "orders: 1000" in told


def _connectors() -> dict[str, dict[str, Any]]:
    """The connectors of the guide, by name."""
    blocks = map(json.loads, re.findall(r"```json\n(.*?)```", text_of(GUIDE), re.DOTALL))
    return {each["name"]: each for each in blocks if "config" in each}


def test_the_configs_of_the_guide_are_good() -> None:
    configs = [each["config"] for each in _connectors().values()]
    sinks = [each for each in configs if each["connector.class"] == "SparkSinkConnector"]
    sources = [each for each in configs if each["connector.class"] == "SparkSourceConnector"]

    assert (len(sinks), len(sources)) == (5, 1)
    for each in sinks:
        assert SparkSinkConfig.of(each).guarantee.startswith("exactly once")
    assert SparkSourceConfig.of(sources[0]).guarantee.startswith("at least once")


@pytest.mark.real
def test_the_database_sink_of_the_guide_writes_a_table(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    """Those for Delta and Iceberg run in tests/e2e/test_extras.py."""
    need_spark()
    make_topic(moldau_broker, moldau_topic)
    send(moldau_broker, moldau_topic, [*orders(100), *orders(10)])
    connector = json.loads(
        json.dumps(_connectors()["orders-table"]).replace("/data/", f"{tmp_path}/")
    )
    connector["config"] |= {"topics": moldau_topic, "trigger": "processing 1 second", **SMALL}
    file = tmp_path / "orders-table.json"
    file.write_text(json.dumps(connector))

    def rows() -> int:
        shop = sqlite3.connect(tmp_path / "shop.db")
        try:
            return int(shop.execute("SELECT count(*) FROM orders").fetchone()[0])
        except sqlite3.OperationalError:
            return 0  # no table yet, or it is being written
        finally:
            shop.close()

    words = ("run", str(file), "--state", str(tmp_path / "state"))
    where = ("--bootstrap", moldau_broker.bootstrap_servers, "--listen", "127.0.0.1:0")
    with command(*words, *where, environment={}) as worker:
        wait_until(lambda: rows() == 100, "100 rows in the table", 240)
        assert worker.stop() == 0


_PREFIXES = ("value.option.", "sink.option.", "source.option.")
"""What follows these is Spark's, or a library's."""


@pytest.mark.parametrize(
    ("header", "kind"), [("| Key | |", SparkSinkConfig), ("| Source key | |", SparkSourceConfig)]
)
def test_the_keys_of_the_guide_are_known(header: str, kind: type[SparkConfig]) -> None:
    tables = [each.split("\n\n")[0] for each in text_of(GUIDE).split(header)[1:]]
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", "".join(tables)))
    known = {each.name for each in kind.settings()}

    shared = {"errors.tolerance", "errors.deadletterqueue.topic.name", "topics.regex"}
    unknown = named - known - shared
    assert {each for each in unknown if not each.startswith(_PREFIXES)} == set()
    dotted = {each for each in known if "." in each and each != "connector.class"}
    assert dotted - named == set(), "a key of the connector is not in the guide"
