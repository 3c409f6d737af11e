"""What a batch comes to: the last write of each key, deletes before writes, sorted by key.

Two tasks that write the same rows in one order cannot deadlock, and a statement that may touch a
row only once (ON CONFLICT) is given each key once. A plain insert keeps every row and the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Row = tuple[Any, ...]


class Change(NamedTuple):
    """One record's row. `others` is None for a delete; `names` are the columns of `others`."""

    key: Row
    names: tuple[str, ...]
    others: Row | None


@dataclass(slots=True)
class Step:
    """What is done to a table, in this order: deletes by key, then rows by their columns."""

    deletes: list[Row] = field(default_factory=list)
    writes: dict[tuple[str, ...], list[Row]] = field(default_factory=dict)
    """Columns beside the key -> rows: the key's values, then theirs."""


def plain(changes: Iterable[Change]) -> list[Step]:
    """Inserts as they came. A delete ends a step, since it concerns what was inserted before."""
    steps = [Step()]
    for change in changes:
        step = steps[-1]
        if change.others is not None:
            step.writes.setdefault(change.names, []).append(change.key + change.others)
            continue
        if step.writes:
            step = Step()
            steps.append(step)
        step.deletes.append(change.key)
    return steps


def last_of_each_key(changes: Sequence[Change]) -> list[Step]:
    """The last state of each key. Columns that a later write does not have keep the earlier's."""
    final: dict[Any, tuple[bool, Change | None]] = {}
    keys: dict[Any, Row] = {}
    for change in changes:
        key = _hashable(change.key)
        keys[key] = change.key
        if change.others is None:
            final[key] = (True, None)
            continue
        deleted, earlier = final.get(key, (False, None))
        if earlier is not None and earlier.names != change.names:
            change = _merged(earlier, change)
        final[key] = (deleted, change)
    step = Step()
    for key in _sorted(final):
        deleted, change_or_none = final[key]
        if deleted:
            step.deletes.append(keys[key])
        if change_or_none is not None:
            assert change_or_none.others is not None
            rows = step.writes.setdefault(change_or_none.names, [])
            rows.append(change_or_none.key + change_or_none.others)
    return [step]


def _merged(earlier: Change, later: Change) -> Change:
    assert earlier.others is not None
    assert later.others is not None
    values = dict(zip(earlier.names, earlier.others, strict=True))
    values.update(zip(later.names, later.others, strict=True))
    return Change(later.key, tuple(values), tuple(values.values()))


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
