"""Sources that stop at a step of a transaction until they may go on (see `held`).

The steps, in their order: `poll` (rows are read, nothing is sent), `commit` (records and offsets
are sent, the transaction is open), `committed` (it is committed, the task does not know yet).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.connect.kills.held import install_package

STEPS: Final = ("poll", "commit", "committed")

SOURCE = """
import os
import time

from moldau.client.sync import Producer
from moldau.connectors.file.source import FileStreamSourceConnector, FileStreamSourceTask
from moldau.connectors.jdbc.source import JdbcSourceConnector
from moldau.connectors.jdbc.source_task import JdbcSourceTask


def hold_at(step):
    path = os.path.join(os.environ["MOLDAU_TEST_HOLDS"], step)
    if os.path.exists(path):
        with open(path + ".reached", "w") as file:
            file.write(str(os.getpid()))
        while os.path.exists(path):
            time.sleep(0.01)


def commit(self, commit=Producer.commit_transaction):
    hold_at("commit")
    commit(self)
    hold_at("committed")


class Held:
    def start(self, props):
        Producer.commit_transaction = commit
        super().start(props)

    def poll(self):
        records = super().poll()
        if records:
            hold_at("poll")
        return records


class HeldRows(JdbcSourceConnector):
    java_names = ()

    def task_class(self):
        return HeldRowsTask


class HeldRowsTask(Held, JdbcSourceTask):
    pass


class HeldText(FileStreamSourceConnector):
    java_names = ()

    def task_class(self):
        return HeldTextTask


class HeldTextTask(Held, FileStreamSourceTask):
    pass
"""

ENTRY_POINTS = """[moldau.connectors]
HeldRows = held_sources:HeldRows
HeldText = held_sources:HeldText
"""


def install(directory: Path, holds: Path) -> Mapping[str, str]:
    """Lays the package into a directory; gives what the environment needs for it to be found."""
    return install_package(directory, holds, "held_sources", SOURCE, ENTRY_POINTS)
