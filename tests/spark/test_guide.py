"""docs/spark.md: its programs run, its config is good, and its keys are those of the connector."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from moldau.connectors.spark.config import SparkSinkConfig, guarantee
from moldau.testing import SyncEmbeddedBroker
from tests.client.guides import run_programs, text_of
from tests.spark.topics import make_topic

GUIDE = "spark.md"


@pytest.mark.real
def test_the_programs_of_the_guide_run(
    spark: Any, moldau_broker: SyncEmbeddedBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic(moldau_broker, "spark-orders", 3)

    run_programs(GUIDE, {"localhost:9092": moldau_broker.bootstrap_servers})

    told = capsys.readouterr().out
    assert "1000 records: key, value, topic, partition" in told
    assert "249750.0" in told
    assert "1000 rows in" in told


def test_the_config_of_the_guide_is_good() -> None:
    found = re.search(r"```json\n(.*?)```", text_of(GUIDE), re.DOTALL)
    assert found is not None

    config = SparkSinkConfig.of(json.loads(found[1])["config"])

    assert guarantee(config).startswith("exactly once")


def test_the_keys_of_the_guide_are_known() -> None:
    table = text_of(GUIDE).split("| Key | |")[1]
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", table.split("\n\n")[0]))
    known = {each.name for each in SparkSinkConfig.settings()}

    shared = {"errors.tolerance", "errors.deadletterqueue.topic.name"}
    assert named - known - shared == set()
    assert len(named) > 10
