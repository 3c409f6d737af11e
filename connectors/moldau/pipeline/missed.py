"""Count the records that were deleted before a sink or an app read them. No IO.

A sink's task reports its count to the Connect worker, from zero after each start. An app reports
each loss as an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from moldau.errors.amounts import counted


class MissedRecords:
    """The counts of all parts of a pipeline, over the restarts of parts and of `run`."""

    def __init__(self, totals: dict[str, int]) -> None:
        """`totals` are the counts by part. They are changed in place."""
        self._totals = totals
        self._of_tasks: dict[str, int] = {}
        """The last reported count of each task that has one."""
        self._reported: dict[str, int] = dict(totals)

    def on_overview(self, overview: Mapping[str, Mapping[str, Any]]) -> None:
        """Take in the counts of sinks, from the answer of a Connect worker."""
        for name, connector in overview.items():
            for task in connector.get("tasks", ()):
                count = int(task.get("missed") or 0)
                task_name = f"{name}/{task.get('id')}"
                before = self._of_tasks.get(task_name, 0)
                self._of_tasks[task_name] = count
                self._add(name, count - before if count >= before else count)

    def on_events(self, app: str, events: Iterable[Mapping[str, Any]]) -> None:
        """Take in what the processes of an app have reported: the fact
        `moldau.client.consumer.position.MISSED` counts."""
        for each in events:
            self._add(app, int(each.get("missed", 0)))

    def _add(self, part: str, count: int) -> None:
        if count:
            self._totals[part] = self._totals.get(part, 0) + count

    def new_lines(self) -> list[str]:
        """Return a line for each part that has missed more. A part that goes on missing records has
        its next line when its count has doubled."""
        lines = []
        for part, count in self._totals.items():
            if count >= max(1, 2 * self._reported.get(part, 0)):
                self._reported[part] = count
                lines.append(f"{part}: {missed_text(count)}")
        return lines


def missed_text(count: int) -> str:
    """Return what happened to these records, and what to do."""
    records = counted(count, "record was", "records were")
    return (
        f"{records} deleted before this part read them -> set retention.ms of its topics to the "
        "longest delay, or to -1"
    )
