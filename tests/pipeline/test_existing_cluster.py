"""The same file on a cluster and a Connect worker that run already."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.sync import Admin, NewTopic
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import command
from tests.pipeline.running import Folder

pytestmark = [pytest.mark.real, pytest.mark.deep]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with SyncEmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def topics(bootstrap: str) -> set[str]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return {each.name for each in admin.list_topics()}


def test_it_runs_there_and_takes_away_only_what_it_made(tmp_path: Path, bootstrap: str) -> None:
    folder = Folder.of_example(tmp_path)
    folder.write("to", "be")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic("lines", 1))
    where = ("--bootstrap", bootstrap)
    words = [f"--set={each}.converter=StringConverter" for each in ("key", "value")]
    words.append("--set=offset.flush.interval.ms=1000")
    start = ("start", *where, "--listen", "127.0.0.1:0", "--set=group.id=elsewhere", *words)
    absolute = f"--var=input={folder.input}"
    text = (folder.path / "pipeline.yaml").read_text()
    for name in ("counts.jsonl", "counts.db"):
        text = text.replace(name, str(folder.path / name))
    (folder.path / "pipeline.yaml").write_text(text)

    with command(*start, environment={}) as worker:
        there = (*where, "--connect", worker.url, absolute)
        plan = json.loads(folder.moldau("pipeline", "plan", "--json", *there))
        changes = {each["name"]: each["changes"] for each in plan["steps"]}
        assert changes["lines"] == [{"what": "partitions", "before": "1", "after": "2"}]
        with folder.running(*there) as run:
            folder.await_all()
            assert worker.states("read-lines") == ["RUNNING", "RUNNING"]
            run.stop()
        assert worker.states("read-lines") == ["STOPPED"]
        assert worker.states("counts-to-file") == ["STOPPED"]
        folder.write("or")
        with folder.running(*there) as run:
            folder.await_all()
            assert folder.counts() == {"to": 1, "be": 1, "or": 1}
            rows = json.loads(folder.moldau("pipeline", "status", "--json", *there))
            assert {each["state"] for each in rows} == {"RUNNING"}
            run.stop()
        folder.moldau("pipeline", "down", "--delete", "--yes", *there)

        assert worker.ask("GET", "/connectors") == (200, [])
        left = topics(bootstrap)
        assert "lines" in left, "it was there before"
        assert not {each for each in left if each.startswith(("counts", "words-"))}
        assert not (folder.path / ".moldau" / "words").exists()


def test_a_worker_of_its_own_on_a_cluster(tmp_path: Path, bootstrap: str) -> None:
    folder = Folder.of_example(tmp_path)
    folder.write("to", "be")

    with folder.running("--bootstrap", bootstrap) as run:
        folder.await_all()
        run.stop()
    folder.moldau("pipeline", "down", "--delete", "--yes", "--bootstrap", bootstrap)

    assert not {each for each in topics(bootstrap) if each.startswith(("counts", "words-"))}


def test_what_a_cluster_cannot_do_is_one_line(tmp_path: Path, bootstrap: str) -> None:
    folder = Folder.of_example(tmp_path)
    text = (folder.path / "pipeline.yaml").read_text()
    (folder.path / "pipeline.yaml").write_text(
        text.replace("lines: {partitions: 2}", "lines: {external: true}").replace("lines", "nope")
    )
    (folder.path / "words.py").write_text(
        (folder.path / "words.py").read_text().replace('"lines"', '"nope"')
    )

    plan = folder.moldau("pipeline", "plan", "--bootstrap", bootstrap, code=1)

    assert "! refuse topic  nope  (it is external and does not exist" in plan
    assert folder.moldau("pipeline", "plan", "--bootstrap", "127.0.0.1:1", code=1) == ""
