"""The rows of a store as the records of its changelog: the inverse of a store's `restore`. Pure.

Invariant: what `changes_of` returns restores to the very rows that it was given. That is tried out
each time, so a store with rows that it does not understand is refused, and never carried wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.streams.engine.global_table import GlobalStore, LookupTable
from moldau.streams.engine.task import Task
from moldau.streams.lakes.rows import LakeRows
from moldau.streams.plan.plan import Program
from moldau.streams.problems import StateError
from moldau.streams.state.backing import Backing, MemoryBacking
from moldau.streams.state.changelog_rows import CLOCK_ROW, changelog_record, has_clock_row
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.spec import StoreKind, StoreSpec

Rows = Mapping[bytes, bytes]


def rows_of(store: StoreSpec, backing: Backing) -> dict[bytes, bytes]:
    """Return all rows, without the clock: a store finds that again in its records."""
    rows = dict(backing.scan(b"", None))
    if has_clock_row(store):
        rows.pop(CLOCK_ROW, None)
    return rows


def backings_of(program: Program) -> dict[str, MemoryBacking]:
    """Return an empty backing for each store of a program."""
    return {store.name: MemoryBacking() for store in program.stores}


def restored_task(
    program: Program, partition: int, backings: Mapping[str, Backing], metadata: Sequence[str] = ()
) -> Task:
    """Return a task that only restores: the tables that it looks up are empty."""
    tables: dict[str, LookupTable] = {table.name: LakeRows(table) for table in program.lake_tables}
    for table in program.global_tables:
        tables[table.store.name] = GlobalStore(table, MemoryBacking())
    return Task(program, partition, backings, metadata=metadata, global_tables=tables)


def changes_of(program: Program, partition: int, store: StoreSpec, rows: Rows) -> ChangelogRecords:
    """Return the changelog that holds these rows. Raise StateError if they cannot be carried."""
    found = _changes(store, rows)
    backings = backings_of(program)
    restored_task(program, partition, backings).restore(store.name, found)
    if rows_of(store, backings[store.name]) != dict(rows):
        raise StateError(
            f"app={program.app} {store.name}: a {store.kind.value} store with such rows cannot be "
            "carried to a changelog: let the app run where it is"
        )
    return found


def newest(changes: ChangelogRecords) -> dict[bytes, tuple[bytes, int]]:
    """Return what a changelog holds: the last value and time of each key, without deleted ones."""
    found: dict[bytes, tuple[bytes, int]] = {}
    for key, value, time in zip(changes.keys, changes.values, changes.timestamps, strict=True):
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value, time
    return found


def difference(
    store: StoreSpec, before: ChangelogRecords, after: ChangelogRecords
) -> ChangelogRecords:
    """Return the records that lead a changelog from `before` to `after`.

    A versioned store has several records of a key, which all count: it gets all, after deletions of
    nothing."""
    found = ChangelogRecords()
    if store.kind is StoreKind.VERSIONED:
        there = set(zip(before.keys, before.values, before.timestamps, strict=True))
        for row in zip(after.keys, after.values, after.timestamps, strict=True):
            if row not in there:
                found.add(*row)
        return found
    old, new = newest(before), newest(after)
    for key, (value, time) in new.items():
        if old.get(key) != (value, time):
            found.add(key, value, time)
    for key, (_, time) in old.items():
        if key not in new:
            found.add(key, None, time)
    return found


def _changes(store: StoreSpec, rows: Rows) -> ChangelogRecords:
    found = ChangelogRecords()
    for key, value in rows.items():
        row = changelog_record(store, key, value)
        if row is not None:
            found.add(*row)
    if store.kind is StoreKind.VERSIONED:
        order: Sequence[int] = sorted(range(len(found)), key=found.timestamps.__getitem__)
        return ChangelogRecords(
            [found.keys[at] for at in order],
            [found.values[at] for at in order],
            [found.timestamps[at] for at in order],
        )
    return found
