"""Lake tables on Spark: the driver chooses the version of each batch, executors read it.

A version that the driver could not read is never used. A batch that runs again may use a newer one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from moldau.runtime.real import RealClock
from moldau.streams.lakes.rows import LakeRows
from moldau.streams.plan.plan import LakeTable, Program
from moldau.streams.problems import LakeUnreadable

LOG: Final = logging.getLogger("moldau.streams")
HeldTables = dict[str, tuple[str, LakeRows]]
"""The tables of a program in an executor's process, with their versions, by name."""


class LakeVersions:
    """The driver's part: the version of each table that the next batch uses."""

    def __init__(self, tables: Sequence[LakeTable]) -> None:
        """Read all tables. Raise LakeUnreadable if one cannot be read."""
        self._clock = RealClock()
        self._rows = {each.name: LakeRows(each) for each in tables}
        self._due_s: dict[str, float] = {}
        for rows in self._rows.values():
            self._renew(rows)

    def of(self, program: Program) -> dict[str, str]:
        """Return the versions of a program's tables, after a look at those for which it is time."""
        names = [each.name for each in program.lake_tables]
        for name in names:
            if self._clock.monotonic() < self._due_s[name]:
                continue
            try:
                self._renew(self._rows[name])
            except LakeUnreadable as error:
                LOG.warning("streams: %s; version %s stays", error, self._rows[name].version)
        return {name: self._rows[name].version for name in names}

    def _renew(self, rows: LakeRows) -> None:
        self._due_s[rows.table.name] = self._clock.monotonic() + rows.table.refresh_ms / 1000
        if (found := rows.newer()) is not None:
            rows.take(found)
            described = rows.table.name, found.version, len(found.rows)
            LOG.info("streams: lake table %s: version %s, %d rows", *described)


def lakes_here(
    held: HeldTables, tables: Sequence[LakeTable], versions: Mapping[str, str]
) -> dict[str, LakeRows]:
    """Return the tables of a program in an executor's process, each read once for a version."""
    found = {}
    for table in tables:
        version, rows = held.get(table.name) or ("", LakeRows(table))
        if version != versions[table.name]:
            version = versions[table.name]
            rows.take(rows.read(version))
            held[table.name] = version, rows
        found[table.name] = rows
    return found
