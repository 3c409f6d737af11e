"""Answers to scripts: ours from `app.test()`, Kafka Streams' from its TopologyTestDriver."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moldau.streams import StreamsError
from tests.peers.apache_kafka import ApacheKafka
from tests.streams.kafka.language import Answer, Script, Topology, give, outputs

SOURCE = Path(__file__).parent / "StreamsAnswers.java"
FAILED = [["failed"]]


def ours(script: Script, *, restarts: int | None = None, **options: Any) -> Answer:
    """What our driver gives for each input; our cache is off unless `options` say otherwise.

    With `restarts` the app starts again every so many inputs, from its changelogs.
    """
    topology = Topology(script.topology)
    driver = topology.app.test(**{"cache_bytes": 0, **options})
    answer = []
    try:
        for index, line in enumerate(script.inputs):
            if restarts and index and index % restarts == 0:
                driver.restart(from_changelog=True)
            give(driver, line)
            answer.append(outputs(driver, topology.sinks))
    except StreamsError:
        return FAILED
    return answer


def theirs(kafka: ApacheKafka, scripts: Sequence[Script]) -> list[Answer]:
    """What Kafka Streams gives."""
    questions = [
        json.dumps({"topology": script.topology, "inputs": script.inputs}) for script in scripts
    ]
    told = [
        json.loads(line)
        for line in kafka.run_source(SOURCE, questions, timeout_s=1800, heap="512m")
    ]
    return [FAILED if "failed" in each else each["outputs"] for each in told]
