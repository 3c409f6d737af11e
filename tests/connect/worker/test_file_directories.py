"""Connectors of files over the REST API: below the worker's directories, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connect.third_party import install
from tests.connect.worker.scene import Scene, content, numbers
from tests.connect.worker.task_failure import expect

pytestmark = pytest.mark.real

SETTING = "connect.file.directories"


def refusals(worker: Worker, config: dict[str, str]) -> list[str]:
    """Return what creation, change and validation say about a config."""
    found = []
    kind, own = config["connector.class"], {**config, "name": "refused"}
    for method, path, body in (
        ("POST", "/connectors", {"name": "refused", "config": config}),
        ("PUT", "/connectors/refused/config", config),
        ("PUT", f"/connector-plugins/{kind}/config/validate", own),
    ):
        status, answer = worker.ask(method, path, body)
        assert status == (200 if path.endswith("validate") else 400), answer
        found.append(str(answer))
    assert worker.ask("GET", "/connectors/refused")[0] == 404
    return found


def test_files_are_named_below_the_directories_of_the_worker_alone(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    inside, out, packages = (tmp_path / each for each in ("in", "out", "packages"))
    inside.mkdir()
    packages.mkdir()
    scene = Scene(moldau_broker, moldau_topic, install(packages))
    (inside / "lines").write_text("one\n")
    source = {"connector.class": "FileStreamSource", "topic": scene.name}
    sink = {"connector.class": "FileStreamSink", "topics": scene.name}
    allowed = {"connect_file_directories": f"{inside},{out.parent}/kept"}
    with scene.worker(**allowed) as worker:
        for config in (
            {**source, "file": "/etc/passwd"},
            {**source, "file.glob": f"{inside}/../*"},
            {**sink, "file": str(out)},
            {**sink, "directory": str(tmp_path)},
        ):
            assert all(SETTING in each for each in refusals(worker, config))
        worker.create("source", {**source, "file": f"{inside}/lines"})
        kept = out.parent / "kept" / "out"
        kept.parent.mkdir()
        worker.create("sink", {**sink, "file": str(kept)})
        wait_until(lambda: content(kept) == ["one"], "the lines are copied")
    assert not out.exists()

    with scene.worker(connect_file_directories="") as worker:
        for name in ("source", "sink"):
            expect(worker, name, SETTING)
        worker.create("other", numbers(scene.name, 5))
        worker.wait_for("other", "RUNNING", "RUNNING")
