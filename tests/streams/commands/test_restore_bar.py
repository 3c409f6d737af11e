"""The restore of stores on a terminal: a bar while it lasts, lines above it, nothing afterwards."""

from __future__ import annotations

from io import StringIO

import pytest

from moldau.streams.commands.restore_bar import RestoreBar
from moldau.streams.worker.door import TopicPartition
from moldau.streams.worker.tasks import RestoreProgress, TaskId, WorkerTask
from tests.streams.worker.counting import CountingTask, word_count


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def restoring_task(end: int) -> WorkerTask:
    program = word_count("app").programs[0]
    task = WorkerTask(TaskId(0, 0), program, (), CountingTask(program, 0, {}, ()), None)
    where = TopicPartition("app-counts-changelog", 0)
    task.restoring[where] = RestoreProgress("counts", where, 0, 0, end)
    return task


def test_a_bar_shows_how_far_the_restore_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    bar = RestoreBar(out)
    write = bar.write_around(out.write)
    task = restoring_task(4000)
    [(where, at)] = task.restoring.items()

    bar.restoring(task, [])
    at.position = 1000
    bar.restored_records(task, where, 1000)
    write("a line of the log\n")
    at.position = 4000
    bar.restored(task)
    bar.ended()

    shown = out.getvalue()
    assert "restoring stores" in shown
    assert "of 4,000 offsets" in shown
    assert "a line of the log" in shown
    assert bar.restored_total == 1000
    before = len(shown)
    write("later\n")
    assert out.getvalue()[before:] == "later\n"


def test_nothing_is_shown_where_nothing_is_restored() -> None:
    out = Terminal()
    bar = RestoreBar(out)
    bar.restoring(restoring_task(0), [])
    bar.ended()
    assert out.getvalue() == ""
