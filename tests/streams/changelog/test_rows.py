"""The rows of a store as the records of its changelog: all of them, and only those."""

from __future__ import annotations

from moldau.streams import Streams, session, within
from moldau.streams.changelog.rows import backings_of, changes_of, restored_task, rows_of
from moldau.streams.plan.plan import Program
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.state.changelog_rows import CLOCK_ROW
from moldau.streams.state.changes import ChangelogRecords


def counting() -> Program:
    app = Streams("carried")
    app.stream("in", str, key=bytes).group_by_key().count(name="counts")
    (program,) = app.plan().programs
    return program


def test_a_key_with_the_bytes_of_the_clock_is_carried() -> None:
    program = counting()
    (store,) = program.stores
    there = ChangelogRecords(
        [CLOCK_ROW, b"a"], [store.value.encode(each) for each in (3, 1)], [7, 8]
    )
    backings = backings_of(program)
    restored_task(program, 0, backings).restore("counts", there)
    rows = rows_of(store, backings["counts"])
    assert set(rows) == {CLOCK_ROW, b"a"}
    found = changes_of(program, 0, store, rows)
    assert set(zip(found.keys, found.values, found.timestamps, strict=True)) == set(
        zip(there.keys, there.values, there.timestamps, strict=True)
    )


def test_the_clocks_of_sessions_and_of_joined_records_are_no_rows() -> None:
    app = Streams("carried")
    lines = app.stream("in", str, key=str)
    lines.group_by_key().window(session("2s")).count(name="spans")
    other = app.stream("other", str, key=str)
    lines.join(other, lambda one, two: one + two, within=within("2s"), name="pairs").to("out")
    stores = {store.name: store for program in app.plan().programs for store in program.stores}
    assert set(stores) == {"spans", "pairs-left", "pairs-right"}
    for store in stores.values():
        backing = MemoryBacking()
        backing.write([(CLOCK_ROW, b"clock"), (b"row", b"value")])
        assert rows_of(store, backing) == {b"row": b"value"}
