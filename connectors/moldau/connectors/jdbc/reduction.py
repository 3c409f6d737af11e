"""Reduces a batch: the last write of each key, deletes before writes, sorted by key.

Two tasks that write the same rows in one order cannot deadlock, and a statement that may touch a
row only once (ON CONFLICT) gets each key once. Plain inserts keep every row and the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

from moldau.deferred import dataclass

Row = tuple[Any, ...]


Change = tuple[Row, tuple[str, ...], Row | None]
"""One record's row: the key's values, the names of the other columns, and their values; None
instead of values is a delete. A plain tuple is cheap: one is made for each record."""


@dataclass(slots=True)
class TableChanges:
    """The changes of a table, in this order: deletes by key, then rows by their columns."""

    deletes: list[Row] = field(default_factory=list)
    writes: dict[tuple[str, ...], list[Row]] = field(default_factory=dict)
    """Names of the non-key columns -> rows: the key's values, then those of the columns."""


def plain(changes: Iterable[Change]) -> list[TableChanges]:
    """Return inserts in order. A delete ends a step, because it affects earlier inserts."""
    steps = [TableChanges()]
    for key, names, others in changes:
        step = steps[-1]
        if others is not None:
            rows = step.writes.get(names)
            if rows is None:
                rows = step.writes[names] = []
            rows.append(key + others)
            continue
        if step.writes:
            step = TableChanges()
            steps.append(step)
        step.deletes.append(key)
    return steps


def last_of_each_key(changes: Sequence[Change]) -> list[TableChanges]:
    """Return the last state of each key. A later write without a column keeps its value."""
    final: dict[Any, tuple[bool, Change | None]] = {}
    keys: dict[Any, Row] = {}
    for change in changes:
        values, names, others = change
        key = _hashable(values)
        keys[key] = values
        if others is None:
            final[key] = _DELETED
            continue
        before = final.get(key)
        if before is None:
            final[key] = (False, change)
            continue
        deleted, earlier = before
        if earlier is not None and earlier[1] != names:
            change = _merged(earlier, change)
        final[key] = (deleted, change)
    step = TableChanges()
    for key in _sorted(final):
        deleted, last = final[key]
        if deleted:
            step.deletes.append(keys[key])
        if last is not None:
            values, names, others = last
            assert others is not None
            step.writes.setdefault(names, []).append(values + others)
    return [step]


_DELETED: tuple[bool, Change | None] = (True, None)


def _merged(earlier: Change, later: Change) -> Change:
    assert earlier[2] is not None
    assert later[2] is not None
    values = dict(zip(earlier[1], earlier[2], strict=True))
    values.update(zip(later[1], later[2], strict=True))
    return later[0], tuple(values), tuple(values.values())


def _sorted(keys: Iterable[Any]) -> list[Any]:
    listed = list(keys)
    try:
        return sorted(listed)
    except TypeError:
        return sorted(listed, key=repr)


def _hashable(key: Row) -> Any:
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key
