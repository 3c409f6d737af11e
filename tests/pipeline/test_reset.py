"""`moldau pipeline reset PART`: an app or a sink reads from the beginning at the next run."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.cli.command import UsageError
from moldau.client.sync import Admin, Consumer, NewTopic, Producer
from moldau.pipeline.data_directory import DataDirectory
from moldau.pipeline.removal import reset_part, resettable
from moldau.runtime.real_files import RealFiles
from moldau.testing import SyncEmbeddedBroker
from tests.cli.shell import Shell
from tests.pipeline.files import pipeline, read
from tests.pipeline.running import Folder

_JOB = """\
pipeline: orders
topics:
  orders: {external: true}
jobs:
  large-orders: {script: large.py, reads: [orders]}
"""


def test_only_apps_and_sinks_are_reset() -> None:
    assert resettable(pipeline(), "count-words").group == "words"
    assert resettable(pipeline(), "write-counts").group == "connect-write-counts"
    with pytest.raises(UsageError, match="did you mean count-words"):
        resettable(pipeline(), "count-word")
    with pytest.raises(UsageError, match="it is a source: delete its offsets"):
        resettable(pipeline(), "read-lines")
    with pytest.raises(UsageError, match="in a checkpoint of Spark: delete that directory"):
        resettable(read(_JOB).pipeline, "large-orders")


def test_a_mistake_in_the_file_that_hides_the_part_is_told(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text("pipeline: shop\napps:\n  count: {app: words:app}\n")
    done = Shell("127.0.0.1:1")("pipeline", "reset", str(file), "count")
    assert done.code == 2
    assert "no section apps" in done.err
    assert "no part has that name" not in done.err


def test_the_group_and_what_the_app_made_are_deleted(tmp_path: Path) -> None:
    app = resettable(pipeline(), "count-words")
    data = DataDirectory(RealFiles(), str(tmp_path / "data"))
    data.prepare()
    stores = tmp_path / "data" / "apps" / "count-words"
    stores.mkdir()
    (stores / "rows").write_text("rows")
    said: list[str] = []
    with SyncEmbeddedBroker() as broker:
        client = {"bootstrap.servers": broker.bootstrap_servers}
        with Admin(client) as admin, Producer(client) as producer:
            for name in ("lines", "words-changelog"):
                admin.create_topic(NewTopic(name, 1, 1))
            producer.send("lines", b"to be")
            producer.flush()
            with Consumer(
                {**client, "group.id": "words", "auto.offset.reset": "earliest"}
            ) as reader:
                reader.subscribe(["lines"])
                while not reader.poll(1.0):
                    pass
                reader.commit()
            assert reset_part(app, data, client, str(tmp_path), said.append) == []
            assert reset_part(app, data, client, str(tmp_path), said.append) == []
            assert [each.name for each in admin.list_topics()] == ["lines"]
            assert "words" not in [each.group_id for each in admin.list_groups()]
    assert not stores.exists()
    assert said == [
        "count-words begins again: deleted the group words, 1 topic, its stores",
        "count-words has nothing to reset: it begins there already",
    ]


@pytest.mark.real
@pytest.mark.deep
def test_an_app_counts_from_the_beginning_after_a_reset(tmp_path: Path) -> None:
    folder = Folder.of_example(tmp_path)
    folder.write("to", "be", "or")
    folder.moldau("pipeline", "run", "--once", "--idle", "2")
    assert "begins again" in folder.moldau("pipeline", "reset", "count-words")
    folder.write("to")
    folder.moldau("pipeline", "run", "--once", "--idle", "2")
    assert folder.counts() == {"to": 2, "be": 1, "or": 1}
    lines = [(each["word"], each["count"]) for each in folder.lines()]
    assert lines.count(("be", 1)) == 2, "the app has written its results again"
