"""A batch comes to the last state of each key, whatever came between."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from moldau.connectors.jdbc.columns import ColumnKind
from moldau.connectors.jdbc.inference import type_of_values
from moldau.connectors.jdbc.reduction import Change, TableChanges, last_of_each_key, plain

Stored = dict[int, dict[str, int]]


def applied(stored: Stored, steps: list[TableChanges]) -> Stored:
    """What a database makes of the steps of an upsert."""
    stored = {key: dict(row) for key, row in stored.items()}
    for step in steps:
        for (key,) in step.deletes:
            stored.pop(key, None)
        for names, rows in step.writes.items():
            for key, *values in rows:
                stored.setdefault(key, {}).update(zip(names, values, strict=True))
    return stored


KEYS = st.integers(0, 4)
WRITES = st.tuples(KEYS, st.dictionaries(st.sampled_from("abc"), st.integers(0, 9), min_size=1))
CHANGES = st.lists(WRITES | st.tuples(KEYS, st.none()), max_size=20)


@given(CHANGES)
def test_the_reduced_batch_leaves_what_the_single_changes_leave(
    changes: list[tuple[int, dict[str, int] | None]],
) -> None:
    made: list[Change] = [
        ((key,), (), None) if row is None else ((key,), tuple(row), tuple(row.values()))
        for key, row in changes
    ]
    start: Stored = {0: {"a": 100}, 1: {"b": 100}}
    one_by_one = start
    for change in made:
        one_by_one = applied(one_by_one, last_of_each_key([change]))

    reduced = last_of_each_key(made)

    assert applied(start, reduced) == one_by_one
    for step in reduced:
        for rows in step.writes.values():
            assert [row[0] for row in rows] == sorted({row[0] for row in rows})


def test_keys_of_different_types_are_sorted_all_the_same() -> None:
    changes: list[Change] = [((key,), ("a",), (1,)) for key in (2, "x", None)]

    (step,) = last_of_each_key(changes)

    assert len(step.writes[("a",)]) == 3


def test_plain_inserts_keep_their_order_around_deletes() -> None:
    changes: list[Change] = [((1,), ("a",), (1,)), ((1,), (), None), ((1,), ("a",), (2,))]

    steps = plain(changes)

    assert [(step.deletes, step.writes) for step in steps] == [
        ([], {("a",): [(1, 1)]}),
        ([(1,)], {("a",): [(1, 2)]}),
    ]


def test_types_of_plain_values_widen() -> None:
    kinds = {
        (1, None, 2): ColumnKind.INT64,
        (1, 2.5): ColumnKind.FLOAT64,
        (1, 2**70): ColumnKind.DECIMAL,
        (1, "a"): ColumnKind.STRING,
        (True,): ColumnKind.BOOLEAN,
        (True, 1): ColumnKind.STRING,
    }
    for values, kind in kinds.items():
        found = type_of_values(values)
        assert found is not None
        assert found.kind is kind
    assert type_of_values([None]) is None
