"""The lake tables of a worker: read before tasks start, and again when their files change.

Invariant: a newer version is taken over only while no task has uncommitted work, so what is
committed together was joined with one version of each table.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any, Protocol

from moldau.runtime import Runtime
from moldau.streams.lakes.rows import LakeRows, LakeVersion
from moldau.streams.plan.plan import LakeTable
from moldau.streams.problems import LakeUnreadable
from moldau.streams.worker.reports import Reports


class LakeRead(Protocol):
    """A read in progress."""

    def done(self) -> bool: ...

    def result(self) -> LakeVersion | None: ...

    def __await__(self) -> Generator[Any, None, LakeVersion | None]: ...


class LakeTables:
    """The lake tables of one worker. Files are read on a thread while tasks work."""

    def __init__(self, tables: Sequence[LakeTable], runtime: Runtime, reports: Reports) -> None:
        self.rows = {each.name: LakeRows(each) for each in tables}
        self._runtime = runtime
        self._reports = reports
        self._due_s = dict.fromkeys(self.rows, 0.0)
        self._reading: dict[str, LakeRead] = {}

    async def start(self) -> None:
        """Read all tables. Raise LakeUnreadable if one cannot be read."""
        for name, rows in self.rows.items():
            found = await self._runtime.run_blocking(rows.newer)
            assert found is not None
            self._take(name, found)

    def look(self) -> None:
        """Begin to read the tables for which it is time; at most one read of each at a time."""
        now = self._runtime.clock.monotonic()
        for name, rows in self.rows.items():
            if name not in self._reading and now >= self._due_s[name]:
                self._reading[name] = self._runtime.run_blocking(rows.newer)

    def take(self) -> None:
        """Take over what has been read. A table that could not be read keeps its rows."""
        for name in [each for each, reading in self._reading.items() if reading.done()]:
            try:
                found = self._reading.pop(name).result()
            except LakeUnreadable as error:
                self._reports.stale_lake(str(error), self.rows[name].version)
                self._delay(name)
                continue
            if found is None:
                self._delay(name)
            else:
                self._take(name, found)

    async def aclose(self) -> None:
        """Wait for reads in progress; their results are not taken."""
        for reading in self._reading.values():
            with suppress(LakeUnreadable):
                await reading

    def _take(self, name: str, found: LakeVersion) -> None:
        self.rows[name].take(found)
        self._reports.took_lake(name, found.version, len(found.rows))
        self._delay(name)

    def _delay(self, name: str) -> None:
        pause_s = self.rows[name].table.refresh_ms / 1000
        self._due_s[name] = self._runtime.clock.monotonic() + pause_s
