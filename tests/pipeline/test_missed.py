"""Records that are deleted before a part reads them: they are kept, or counted in status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moldau.client.base.offsets import EARLIEST
from moldau.client.consumer.position import MISSED
from moldau.client.sync import Admin, Producer
from moldau.pipeline.data_directory import DataDirectory
from moldau.pipeline.missed import MissedRecords
from moldau.runtime.real_files import RealFiles
from moldau.testing import SyncEmbeddedBroker
from tests.pipeline.running import Folder, wait_until

WORDS = """
from moldau.streams import Streams

app = Streams("{name}-app")
app.stream("{name}-lines", str).map_values(str.upper).to("{name}-upper")
"""
PIPELINE = """
pipeline: words
broker:
  settings: {{log.retention.check.interval.ms: 300}}
worker:
  settings: {{key.converter: StringConverter, value.converter: StringConverter,
             offset.flush.interval.ms: 500}}
topics:
  {name}-lines: {{partitions: 2}}
  {name}-upper: {{partitions: 2}}
  {name}-short: {{partitions: 1, config: {{retention.ms: 1000}}}}
sources:
  read: {{connector.class: FileStreamSource, topic: {name}-lines, file: none.txt}}
  read-short: {{connector.class: FileStreamSource, topic: {name}-short, file: none.txt}}
topologies:
  upper:
    app: words:app
sinks:
  write: {{connector.class: FileStreamSink, topics: {name}-lines, file: lines.txt}}
  write-upper: {{connector.class: FileStreamSink, topics: {name}-upper, file: upper.txt}}
  write-short: {{connector.class: FileStreamSink, topics: {name}-short, file: short.txt}}
"""
OLD_MS = 1_500_000_000_000


def folder_of(path: Path, name: str) -> Folder:
    folder = Folder(path / name)
    folder.path.mkdir()
    (folder.path / "pipeline.yaml").write_text(PIPELINE.format(name=name))
    (folder.path / "none.txt").touch()
    (folder.path / "words.py").write_text(WORDS.format(name=name))
    return folder


def send(bootstrap: str, topic: str, count: int, timestamp_ms: int | None = None) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for each in range(count):
            producer.send(topic, str(each).encode(), partition=0, timestamp_ms=timestamp_ms)
        producer.flush()


def first_offset(bootstrap: str, topic: str) -> int:
    with Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.list_offsets({(topic, 0): EARLIEST})
    return min(each.offset for each in found.values())


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def missed_of(folder: Folder, *words: str) -> dict[str, Any]:
    rows = json.loads(folder.moldau("pipeline", "status", "--json", *words))
    return {each["part"]: each["missed"] for each in rows}


@pytest.mark.real
@pytest.mark.deep
def test_the_own_broker_keeps_old_records_unless_told_otherwise(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "kept")
    with folder.running() as run:
        bootstrap = folder.state()["bootstrap"]
        send(bootstrap, "kept-lines", 100, OLD_MS)
        send(bootstrap, "kept-short", 100, OLD_MS)
        wait_until(lambda: first_offset(bootstrap, "kept-short") == 100, "retention.ms is obeyed")

        assert first_offset(bootstrap, "kept-lines") == 0
        run.stop()


@pytest.mark.real
@pytest.mark.deep
def test_status_counts_what_a_sink_and_an_app_have_missed_on_any_cluster(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "gone")
    with SyncEmbeddedBroker() as broker:
        bootstrap = broker.bootstrap_servers
        where = ("--bootstrap", bootstrap)
        with folder.running(*where) as run:
            send(bootstrap, "gone-lines", 5)
            wait_until(lambda: len(lines_of(folder.path / "lines.txt")) == 5, "5 lines")
            wait_until(lambda: len(lines_of(folder.path / "upper.txt")) == 5, "5 results")
            run.stop()
        send(bootstrap, "gone-lines", 95)
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.delete_records({("gone-lines", 0): 60})

        expected = {"write": 55, "upper": 55, "write-upper": 0, "write-short": 0}
        with folder.running(*where) as run:
            wait_until(lambda: len(lines_of(folder.path / "lines.txt")) == 45, "the other 40")
            wait_until(lambda: expected.items() <= missed_of(folder, *where).items(), "the counts")
            table = folder.moldau("pipeline", "status", *where)
            run.stop()
            reported = {each.partition(":")[0] for each in run.said if "were deleted" in each}
        with folder.running(*where) as run:
            kept = missed_of(folder, *where)
            run.stop()

    assert "55 records were deleted before this part read them" in table
    assert reported == {"write", "upper"}
    assert expected.items() <= kept.items()


def test_counts_outlive_the_restart_of_a_task_and_are_reported_when_they_double() -> None:
    totals = {"write": 10}
    missed = MissedRecords(totals)

    def seen(*counts: int) -> list[str]:
        tasks = [{"id": number, "missed": count} for number, count in enumerate(counts)]
        missed.on_overview({"write": {"tasks": tasks}})
        return missed.new_lines()

    assert seen(4, 0) == []
    assert len(seen(4, 6)) == 1
    assert seen(4, 6) == []
    assert seen(3, 6) == []
    assert totals == {"write": 23}
    missed.on_events("app", [{"text": "x"}, {"text": "gone", "old_offset": 1, MISSED: 7}])
    assert totals["app"] == 7
    assert MISSED == "missed"
    assert [each.partition(":")[0] for each in missed.new_lines()] == ["app"]


def test_events_are_read_once_and_by_whole_lines(tmp_path: Path) -> None:
    data, positions = DataDirectory(RealFiles(), str(tmp_path)), dict[str, int]()
    events = Path(data.make_events("app"))

    def new() -> list[str]:
        return [each["text"] for each in data.new_events("app", positions)]

    assert new() == []
    (events / "1.jsonl").write_text('{"text": "one"}\n{"te')
    assert new() == ["one"]
    (events / "2.jsonl").write_text('{"text": "other"}\n')
    (events / "1.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    assert new() == ["two", "other"]
    data.make_events("app")
    assert not list(events.iterdir())
