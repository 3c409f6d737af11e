"""A deleted connector removes what it leaves, once, when its tasks have ended on all workers."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.connect.third_party import install
from tests.connect.worker.scene import Scene
from tests.connect.worker.task_audit import owners

pytestmark = pytest.mark.real


@pytest.fixture
def scene(moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path) -> Scene:
    packages = tmp_path / "packages"
    packages.mkdir()
    return Scene(moldau_broker, moldau_topic, install(packages))


def audited(folder: Path, **more: str) -> dict[str, str]:
    return {"connector.class": "Audited", "folder": str(folder), "tasks.max": "2", **more}


def content(folder: Path, name: str) -> list[str]:
    path = folder / name
    return path.read_text().split() if path.exists() else []


def test_what_is_left_goes_when_tasks_have_ended_everywhere_and_not_before_a_delete(
    scene: Scene, tmp_path: Path
) -> None:
    folder = tmp_path / "audited"
    folder.mkdir()
    running = ["RUNNING"] * 3
    with ExitStack() as stack:
        first = stack.enter_context(scene.worker())
        first.create("audited", audited(folder))
        first.wait_for("audited", *running)
        second = stack.enter_context(scene.worker())
        wait_until(lambda: len(owners(first, "audited")) == 2, "both have a task")
        status, _ = first.ask("PUT", "/connectors/audited/config", audited(folder, topic="t"))
        assert status == 200
        wait_until(lambda: len(content(folder, "starts")) >= 9, "tasks of the new config")
        first.wait_for("audited", *running)
        assert content(folder, "removed") == []

        assert second.ask("DELETE", "/connectors/audited")[0] == 204
        second.create("audited", audited(folder))
        assert content(folder, "removed") == ["audited"], "a new one waits for it"
        first.wait_for("audited", *running)
        assert second.stop() == 0
        wait_until(lambda: len(owners(first, "audited")) == 1, "one has both tasks")
        assert content(folder, "removed") == ["audited"]

        assert first.ask("DELETE", "/connectors/audited")[0] == 204
        assert first.stop() == 0
    assert content(folder, "removed") == ["audited"] * 2, "a worker ends after it"
    assert content(folder, "twice") == []


def test_what_cannot_be_removed_is_logged_and_the_name_is_free(
    scene: Scene, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever the error is, and without the values that the config refers to."""
    password = tmp_path / "password"
    password.write_text("open-sesame")
    broken = audited(tmp_path, topic="broken", secret=f"${{leased:{password}:it}}")
    with scene.worker(config_providers="leased", config_providers_leased_class="Leased") as worker:
        worker.create("audited", broken)
        worker.wait_for("audited", "RUNNING", "RUNNING", "RUNNING")
        assert worker.ask("DELETE", "/connectors/audited")[0] == 204
        worker.create("audited", audited(tmp_path))
        worker.wait_for("audited", "RUNNING", "RUNNING", "RUNNING")
        assert content(tmp_path, "removed") == []
        assert worker.stop() == 0
    _, errors = capfd.readouterr()
    [line] = [each for each in errors.splitlines() if "left something" in each]
    assert "it cannot be removed: [hidden]" in line
    assert "open-sesame" not in errors
