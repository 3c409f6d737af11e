"""The restore of stores as a bar on a terminal; log lines are written above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

from moldau.cli.output import write_above
from moldau.streams.worker.door import TopicPartition
from moldau.streams.worker.reports import Reports
from moldau.streams.worker.tasks import WorkerTask

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from moldau.streams.query.lifecycle import Lifecycle


class RestoreBar(Reports):
    """One bar for all stores that are being restored."""

    def __init__(self, out: TextIO, life: Lifecycle | None = None) -> None:
        super().__init__(life)
        self._out = out
        self._bar: Progress | None = None
        self._line: TaskID | None = None
        self._open: dict[str, WorkerTask] = {}

    def write_around(self, write: Callable[[str], object]) -> Callable[[str], object]:
        """Return a function that writes log lines above the bar."""

        def around(text: str) -> object:
            if self._bar is None:
                return write(text)
            for line in text.splitlines():
                write_above(self._bar.console, line)
            return None

        return around

    def restoring(self, task: WorkerTask, cleared: Sequence[str]) -> None:
        """Report that the stores of a task were opened, and show the bar if they are restored."""
        super().restoring(task, cleared)
        if any(not each.is_done for each in task.restoring.values()):
            self._open[str(task.task_id)] = task
            self._show()

    def restored_records(self, task: WorkerTask, where: TopicPartition, count: int) -> None:
        """Count `count` more restored records, and advance the bar."""
        super().restored_records(task, where, count)
        self._show()

    def restored(self, task: WorkerTask) -> None:
        """Report that the task runs, and remove its stores from the bar."""
        if self._open.pop(str(task.task_id), None) is not None:
            self._show()
        super().restored(task)

    def ended(self) -> None:
        """Remove the bar: the worker has stopped."""
        self._open.clear()
        self._show()

    def _show(self) -> None:
        if not self._open:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None
            return
        stores = [each for task in self._open.values() for each in task.restoring.values()]
        done = sum(each.position - each.begin for each in stores)
        total = sum(each.end - each.begin for each in stores)
        if self._bar is None:
            self._begin()
        assert self._bar is not None
        assert self._line is not None
        self._bar.update(self._line, completed=done, total=total)

    def _begin(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("restoring stores"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} offsets"),
            TimeRemainingColumn(),
            console=Console(file=self._out),
            transient=True,
        )
        self._line = self._bar.add_task("", total=1)
        self._bar.start()
