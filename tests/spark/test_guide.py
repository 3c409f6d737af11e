"""docs/spark.md: its programs run, its config is good, and its keys are those of the connector."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from moldau.connectors.spark.base_config import SparkConfig
from moldau.connectors.spark.config import SparkSinkConfig
from moldau.connectors.spark.source_config import SparkSourceConfig
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import run_programs, text_of
from tests.spark.topics import make_topic

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


def _config(number: int) -> dict[str, str]:
    found = re.findall(r"```json\n(.*?)```", text_of(GUIDE), re.DOTALL)
    config: dict[str, str] = json.loads(found[number])["config"]
    return config


def test_the_configs_of_the_guide_are_good() -> None:
    for number in (0, 1):
        assert SparkSinkConfig.of(_config(number)).guarantee.startswith("exactly once")
    assert SparkSourceConfig.of(_config(2)).guarantee.startswith("at least once")


_PREFIXES = ("value.option.", "sink.option.", "source.option.")
"""What follows these is Spark's, or a library's."""


@pytest.mark.parametrize(
    ("header", "kind"),
    [("| Key | |", SparkSinkConfig), ("| Source key | |", SparkSourceConfig)],
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
