"""The configs in docs/jdbc.md and docs/files.md are valid, and those of the first pages run."""

from __future__ import annotations

import json
import re
import sqlite3
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from moldau.connect.api import Connector, SinkRecord, SinkTask, SourceRecord, SourceTask
from tests.connectors.contexts import Offsets, SinkContext, SourceContext, WatchContext

DOCS = Path(__file__).parents[2] / "docs"


def blocks(name: str) -> list[dict[str, Any]]:
    text = (DOCS / name).read_text(encoding="utf-8")
    return [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]


def connector(config: dict[str, str]) -> Connector:
    named = config["connector.class"]
    for plugin in entry_points(group="moldau.connectors"):
        if plugin.name.startswith(("Jdbc", "FileStream")):
            cls: type[Connector] = plugin.load()
            if named in (plugin.name, *cls.java_names):
                return cls()
    raise LookupError(named)


def polled(config: dict[str, str]) -> list[SourceRecord]:
    """What the source of a config reads."""
    source = connector(config)
    source.initialize(WatchContext())
    source.start(config)
    task = source.task_class()()
    assert isinstance(task, SourceTask)
    task.initialize(SourceContext(Offsets()))
    task.start(source.task_configs(1)[0])
    records = list(task.poll() or [])
    task.stop()
    source.stop()
    return records


def written(config: dict[str, str], records: list[SourceRecord]) -> None:
    """Give a source's records to the sink of a config."""
    sink = connector(config)
    sink.start(config)
    task = sink.task_class()()
    assert isinstance(task, SinkTask)
    task.initialize(SinkContext())
    task.start(sink.task_configs(1)[0])
    task.put(
        [
            SinkRecord(each.topic, 0, each.key_schema, each.key, each.value_schema, each.value, n)
            for n, each in enumerate(records)
        ]
    )
    task.flush({})
    task.stop()


@pytest.mark.parametrize("name", ["jdbc.md", "files.md"])
def test_every_config_is_valid(name: str) -> None:
    found = blocks(name)

    assert len(found) >= 4
    for block in found:
        type(connector(block["config"])).config_model.of(block["config"])


def test_the_first_configs_of_jdbc_copy_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shop = sqlite3.connect("shop.db")
    shop.execute("CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)")
    shop.execute("INSERT INTO customer VALUES (1, 'Ada'), (2, 'Jan')")
    shop.commit()
    shop.close()
    source, sink = blocks("jdbc.md")[:2]

    records = polled(source["config"])
    written(sink["config"], records)

    assert {record.topic for record in records} == {sink["config"]["topics"]}
    copy = sqlite3.connect("copy.db")
    assert copy.execute("SELECT * FROM customer").fetchall() == [(1, "Ada"), (2, "Jan")]
    copy.close()


def test_the_first_configs_of_files_copy_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.log").write_text("one\ntwo\n")
    source, sink = blocks("files.md")[:2]

    written(sink["config"], polled(source["config"]))

    assert Path("lines.txt").read_text() == "one\ntwo\n"
