"""Sinks that stop at a step until they may go on, so that a kill hits exactly there.

The steps of the JDBC sink, in their order: `rebalance` (partitions are opened), `write` (the rows
are written, the database has not committed), `put` (it has), `commit` (the task is about to commit
its offsets). The file sink has all but `write`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

STEPS: Final = ("rebalance", "write", "put", "commit")
FOLDER: Final = "MOLDAU_TEST_HOLDS"

SOURCE = """
import os
import time
from contextlib import contextmanager

from sqlalchemy import event
from sqlalchemy.engine import Engine

from moldau.connectors.file.sink import FileStreamSinkConnector, RolledFileSinkTask
from moldau.connectors.jdbc.sink import JdbcSinkConnector
from moldau.connectors.jdbc.sink_task import JdbcSinkTask


def hold_at(step):
    path = os.path.join(os.environ["MOLDAU_TEST_HOLDS"], step)
    if os.path.exists(path):
        with open(path + ".reached", "w") as file:
            file.write(str(os.getpid()))
        while os.path.exists(path):
            time.sleep(0.01)


class Steps:
    def open(self, partitions):
        hold_at("rebalance")
        super().open(partitions)

    def put(self, records):
        super().put(records)
        if records:
            hold_at("put")

    def pre_commit(self, offsets):
        found = super().pre_commit(offsets)
        if offsets:
            hold_at("commit")
        return found


class HeldTable(JdbcSinkConnector):
    java_names = ()

    def task_class(self):
        return HeldTableTask


class HeldTableTask(Steps, JdbcSinkTask):
    def put(self, records):
        with held_commits(is_held=bool(records)):
            super().put(records)

    def put_columns(self, part):
        with held_commits(is_held=True):
            count = super().put_columns(part)
        if count:
            hold_at("put")
        return count


@contextmanager
def held_commits(is_held):
    def on_commit(connection):
        if is_held:
            hold_at("write")

    event.listen(Engine, "commit", on_commit)
    try:
        yield
    finally:
        event.remove(Engine, "commit", on_commit)


class HeldFiles(FileStreamSinkConnector):
    java_names = ()

    def task_class(self):
        return HeldFilesTask


class HeldFilesTask(Steps, RolledFileSinkTask):
    pass
"""

ENTRY_POINTS = """[moldau.connectors]
HeldTable = held_sinks:HeldTable
HeldFiles = held_sinks:HeldFiles
"""


def install(directory: Path, holds: Path) -> Mapping[str, str]:
    """Lays the package into a directory; gives what the environment needs for it to be found."""
    return install_package(directory, holds, "held_sinks", SOURCE, ENTRY_POINTS)


def install_package(
    directory: Path, holds: Path, module: str, source: str, entry_points: str
) -> Mapping[str, str]:
    """Lays a package of one module into a directory, as `install` does."""
    (directory / f"{module}.py").write_text(source)
    metadata = directory / f"{module}-0.1.dist-info"
    metadata.mkdir()
    name = module.replace("_", "-")
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    path = os.environ.get("PYTHONPATH")
    return {
        "PYTHONPATH": str(directory) if path is None else f"{directory}{os.pathsep}{path}",
        FOLDER: str(holds),
    }


class Holds:
    """The folder that tells sinks where to stop."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def ask(self, step: str) -> None:
        """Stop the next one that reaches this step."""
        (self._folder / f"{step}.reached").unlink(missing_ok=True)
        (self._folder / step).touch()

    def is_reached(self, step: str) -> bool:
        """Whether a sink stands there."""
        return (self._folder / f"{step}.reached").exists()

    def release(self, step: str) -> None:
        """Go on."""
        (self._folder / step).unlink(missing_ok=True)
