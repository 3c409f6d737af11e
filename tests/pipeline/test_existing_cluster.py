"""The same file on a cluster and a Connect worker that run already."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.client.sync import Admin, NewTopic
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import Worker, command
from tests.pipeline.running import Folder

pytestmark = [pytest.mark.real, pytest.mark.deep]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with SyncEmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def topics(bootstrap: str) -> set[str]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return {each.name for each in admin.list_topics()}


def groups(bootstrap: str) -> set[str]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        return {each.group_id for each in admin.list_groups()}


@contextmanager
def worker_of(bootstrap: str, group: str) -> Iterator[Worker]:
    """A Connect worker of somebody else."""
    words = [f"--set={each}.converter=StringConverter" for each in ("key", "value")]
    words += ["--set=offset.flush.interval.ms=1000", f"--set=group.id={group}"]
    words += [
        f"--set={each}.storage.topic={group}-{each}" for each in ("config", "offset", "status")
    ]
    with command(
        "start", "--bootstrap", bootstrap, "--listen", "127.0.0.1:0", *words, environment={}
    ) as worker:
        yield worker


def with_absolute_paths(folder: Folder) -> str:
    """Write the file for a worker with another directory; return its `--var`."""
    file = folder.path / "pipeline.yaml"
    text = file.read_text()
    for name in ("counts.jsonl", "counts.db"):
        text = text.replace(name, str(folder.path / name))
    file.write_text(text)
    return f"--var=input={folder.input}"


def test_it_runs_there_and_takes_away_only_what_it_made(tmp_path: Path, bootstrap: str) -> None:
    folder = Folder.of_example(tmp_path)
    folder.write("to", "be")
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic("lines", 1))
    where = ("--bootstrap", bootstrap)
    absolute = with_absolute_paths(folder)

    with worker_of(bootstrap, "elsewhere") as worker:
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
    assert not {"words-connect", "words", "connect-counts-to-file"} & groups(bootstrap)


def test_what_was_there_before_a_run_on_another_cluster_stays(tmp_path: Path) -> None:
    folder = Folder.of_example(tmp_path)
    folder.write("to", "be")
    with folder.running() as run:
        folder.await_all()
        run.stop()
    with SyncEmbeddedBroker() as broker:
        where = ("--bootstrap", broker.bootstrap_servers)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic(NewTopic("lines", 2))
            admin.create_topic(NewTopic("counts", 2, -1, {"cleanup.policy": "compact"}))
        folder.moldau("pipeline", "down", "--delete", "--yes", *where, code=1)
        with folder.running(*where) as run:
            run.stop()
        folder.moldau("pipeline", "down", "--delete", "--yes", *where)

        assert topics(broker.bootstrap_servers) == {"lines", "counts"}


def test_a_killed_run_leaves_nothing_on_the_worker_that_down_does_not_stop(
    tmp_path: Path,
) -> None:
    folder = Folder.of_example(tmp_path)
    folder.write("to", "be")
    absolute, file = with_absolute_paths(folder), folder.path / "pipeline.yaml"
    with (
        SyncEmbeddedBroker() as broker,
        worker_of(broker.bootstrap_servers, "theirs") as worker,
    ):
        there = ("--bootstrap", broker.bootstrap_servers, "--connect", worker.url, absolute)
        theirs = {"connector.class": "FileStreamSink", "topics": "lines", "file": "/dev/null"}
        worker.create("counts-to-file", theirs)
        with folder.running(*there) as run:
            folder.await_all()
            run.kill()
        file.write_text(file.read_text().replace("counts-to-database:", "renamed:"))
        plan = folder.moldau("pipeline", "plan", *there)
        assert "- remove connector counts-to-database  (no longer in the file)" in plan
        with folder.running(*there) as run:
            run.kill()
        removed = "connector  counts-to-database is removed: it is no longer in the file"
        assert removed in run.said
        assert sorted(worker.ask("GET", "/connectors")[1]) == [
            "counts-to-file",
            "read-lines",
            "renamed",
        ]
        said = folder.moldau("pipeline", "down", *there)
        assert "left: counts-to-file, read-lines, renamed" in said
        assert worker.states("read-lines") == worker.states("renamed") == ["STOPPED"]
        folder.moldau("pipeline", "down", "--delete", "--yes", *there)

        assert worker.ask("GET", "/connectors") == (200, ["counts-to-file"])


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
