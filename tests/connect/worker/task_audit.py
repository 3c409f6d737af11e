"""Which workers run which tasks, and whether a task ever ran twice."""

from __future__ import annotations

from pathlib import Path

from tests.connect.processes import Worker
from tests.connect.worker.scene import content


def owners(worker: Worker, *names: str) -> set[str]:
    """The workers that run tasks, as this one knows it."""
    found = set()
    for name in names:
        status, body = worker.ask("GET", f"/connectors/{name}/status")
        if status == 200:
            found |= {task["worker_id"] for task in body["tasks"] if task["state"] == "RUNNING"}
    return found


class Audit:
    """What the tasks of `Audited` connectors have noted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def config(self, tasks: int) -> dict[str, str]:
        return {
            "connector.class": "Audited",
            "folder": str(self.folder),
            "tasks.max": str(tasks),
        }

    def starts(self) -> list[tuple[str, float]]:
        """Each start of a task, and when it was."""
        return [
            (words[0], float(words[2])) for words in map(str.split, content(self.folder / "starts"))
        ]

    def check(self) -> None:
        assert content(self.folder / "twice") == []
