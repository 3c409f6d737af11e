"""What does not return from its start is shown with the reason, and holds up no other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from moldau.connect.worker.worker import STARTING, cause_to_tell
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.processes import Worker, wait_until
from tests.connect.worker.scene import Scene, content, environment, lines, numbers

__all__ = ["environment"]

pytestmark = pytest.mark.real

OTHERS_WAIT_S = 20
"""Less than a call of a connector may take (`CALL_S`)."""


@pytest.fixture
def scene(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, environment: Mapping[str, str]
) -> Scene:
    return Scene(moldau_broker, moldau_topic, environment)


def test_a_start_is_told_when_it_takes_long() -> None:
    assert cause_to_tell(STARTING, 0.3) is None
    assert cause_to_tell(STARTING, 3.0) == STARTING
    assert cause_to_tell("the table is locked", 0.3) == "the table is locked"


def seen(worker: Worker, name: str) -> dict[str, Any]:
    found: dict[str, Any] = worker.ask("GET", "/v1/connectors")[1][name]
    return found


def test_a_task_whose_start_waits_is_there_with_the_reason(scene: Scene, tmp_path: Path) -> None:
    out, start = tmp_path / "out", tmp_path / "start"
    with scene.worker() as worker:
        worker.create("numbers", numbers(scene.name, 3))
        worker.create(scene.sink, lines(scene.name, out, start_file=str(start)))
        wait_until(
            lambda: "start has not returned" in str(seen(worker, scene.sink)["tasks"]), "it is told"
        )
        [task] = worker.ask("GET", f"/connectors/{scene.sink}/status")[1]["tasks"]
        assert task["state"] == "UNASSIGNED", "it does not run yet"
        start.touch()
        worker.wait_for(scene.sink, "RUNNING", "RUNNING")
        wait_until(lambda: len(content(out)) == 3, "it works")
        assert "start has not returned" not in str(seen(worker, scene.sink))


def test_what_waits_in_its_start_holds_up_no_other(scene: Scene, tmp_path: Path) -> None:
    start = tmp_path / "start"
    with scene.worker(task_shutdown_graceful_timeout_ms="500") as worker:
        worker.create("stuck", numbers(scene.name, 1, start_file=str(start)))
        wait_until(
            lambda: "start has not returned" in seen(worker, "stuck").get("waits_for", ""),
            "it hangs",
        )
        worker.ask("DELETE", "/connectors/stuck")
        worker.create("quick", numbers(scene.name, 1))
        wait_until(
            lambda: (
                seen(worker, "quick")["tasks"][:1] != []
                and seen(worker, "quick")["tasks"][0]["state"] == "RUNNING"
            ),
            "the other one runs",
            OTHERS_WAIT_S,
        )
        start.touch()
