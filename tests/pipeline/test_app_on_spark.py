"""A topology on Spark in a pipeline: its driver is killed in the middle, the pipeline is stopped
and started again, and each word counts once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from moldau.client.sync import Consumer
from tests.connectors.spark.runners import SMALL, need_spark
from tests.pipeline.running import Folder, wait_until

pytestmark = [pytest.mark.real, pytest.mark.deep]

PATIENCE_S = 500.0
"""Java and two queries begin, and a busy machine starts Python slowly."""
APP = """
from moldau.streams import Streams

app = Streams("word-count", emit="every")
(
    app.stream("lines", str)
    .flat_map(str.split)
    .group_by(lambda word: word)
    .count(name="counts")
    .changes()
    .to("words")
)
"""
PIPELINE = """
pipeline: words
worker:
  settings: {key.converter: StringConverter, value.converter: StringConverter}
topics:
  lines: {partitions: 2}
  words: {partitions: 2}
sources:
  read: {connector.class: FileStreamSource, topic: lines, file: input.txt}
topologies:
  count-words:
    app: word_count:app
    engine: spark
    settings: SETTINGS
"""


class Counts:
    """What readers of the topic `words` see."""

    def __init__(self, folder: Folder) -> None:
        self._servers = folder.state()["bootstrap"]

    def now(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        settings: dict[str, Any] = {"isolation.level": "read_committed"}
        with Consumer({"bootstrap.servers": self._servers, **settings}) as consumer:
            partitions = consumer.partitions("words")
            consumer.assign(partitions)
            consumer.seek_to_beginning(partitions)
            ends = consumer.end_offsets(partitions)
            while any((consumer.position(where) or 0) < end for where, end in ends.items()):
                for part in consumer.poll(0.5):
                    for each in part.records:
                        found[(each.key or b"").decode()].append(int(each.value or b"0"))
        return dict(found)

    def are(self, counts: dict[str, int]) -> bool:
        return {word: max(each) for word, each in self.now().items()} == counts


def test_each_word_counts_once_although_the_driver_is_killed(tmp_path: Path) -> None:
    need_spark()
    folder = Folder(tmp_path)
    conf = {"spark.master": "local[2]", **SMALL}
    (tmp_path / "word_count.py").write_text(APP)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("SETTINGS", json.dumps(conf)))
    folder.write(*("to be or not to be" for _ in range(20)))

    with folder.running() as run:
        counts = Counts(folder)
        wait_until(lambda: counts.are({"to": 40, "be": 40, "or": 20, "not": 20}), "20", PATIENCE_S)
        folder.write(*("to be" for _ in range(500)))
        # On a busy machine Spark may give up at its start, and is started again.
        wait_until(lambda: folder.pid_of("app count-words") is not None, "a driver", PATIENCE_S)
        driver = folder.pid_of("app count-words")
        assert driver is not None
        os.kill(driver, signal.SIGKILL)
        folder.write(*("or not" for _ in range(500)))
        run.read_until("app count-words has ended (signal 9)")
        wait_until(
            lambda: counts.are({"to": 540, "be": 540, "or": 520, "not": 520}), "520", PATIENCE_S
        )
        wait_until(lambda: _row(folder)["state"] == "RUNNING", "the state", PATIENCE_S)
        wait_until(lambda: _row(folder)["lag"] == 0, "no lag", PATIENCE_S)
        assert _row(folder)["restarts"] >= 1
        said = run.stop()
    assert "stopping app count-words" in said

    folder.write("to")
    with folder.running() as run:
        counts = Counts(folder)
        wait_until(
            lambda: counts.are({"to": 541, "be": 540, "or": 520, "not": 520}), "541", PATIENCE_S
        )
        found = counts.now()
        run.stop()
    for word, each in found.items():
        assert each == list(range(1, len(each) + 1)), word


def _row(folder: Folder) -> dict[str, Any]:
    """What `status` says of the app. Its exit code is 1 while a part starts again."""
    done = subprocess.run(
        [sys.executable, "-m", "moldau.cli", "pipeline", "status", "--json"],
        cwd=folder.path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return next(each for each in rows if each["part"] == "count-words")
