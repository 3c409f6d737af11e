"""A table that is restored from its topic has the rows that it had when it read the topic."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.streams import Streams, StreamsError, dead_letter
from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.task import Task
from moldau.streams.plan.plan import Program
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.state.changes import ChangelogRecords

Rows = list[tuple[bytes, bytes | None, int]]


def columns_of(rows: Rows) -> ChangelogRecords:
    columns = ChangelogRecords()
    for row in rows:
        columns.add(*row)
    return columns


def read(program: Program, rows: Rows) -> Task:
    """A task that has read the rows from the topic."""
    task = Task(program, 0, {"rows": MemoryBacking()})
    columns = columns_of(rows)
    task.add(
        "rows", Chunk(range(len(rows)), columns.timestamps, columns.keys, columns.values, len(rows))
    )
    task.process(0)
    return task


def restored(program: Program, rows: Rows) -> Task:
    """A task with a store that was restored from the rows."""
    task = Task(program, 0, {"rows": MemoryBacking()})
    task.restore("rows", columns_of(rows))
    return task


def store_of(task: Task) -> Any:
    return task.store("rows")


def program_of(value: Any, **options: Any) -> Program:
    app = Streams("app")
    app.table("rows", value, **options).changes().to("out")
    (program,) = app.plan().programs
    return program


@pytest.mark.parametrize("on_error", ["skip", "dead letter"])
@pytest.mark.parametrize("versioned", [None, "1h"])
def test_a_restore_leaves_out_what_the_policy_of_the_source_has_left_out(
    on_error: str, versioned: str | None
) -> None:
    policy = "skip" if on_error == "skip" else dead_letter("failed")
    program = program_of(int, key=str, on_error=policy, versioned=versioned)
    rows: Rows = [
        (b"a", b"1", 10),
        (b"a", b"poison", 20),
        (b"\xff", b"2", 30),
        (b"b", b"3", -1),
        (b"c", b"4", 40),
        (b"c", None, 50),
    ]

    for task in (read(program, rows), restored(program, rows)):
        assert dict(store_of(task).items()) == {"a": (1, 10)}


def test_a_restore_gives_rows_the_times_of_the_source() -> None:
    def own_time(value: Any, _: int) -> int:
        return -1 if value is None else int(value) * 100

    program = program_of(int, key=str, timestamp=own_time)
    rows: Rows = [(b"a", b"1", 7), (b"b", b"2", 8), (b"a", None, 9)]

    for task in (read(program, rows), restored(program, rows)):
        assert dict(store_of(task).items()) == {"a": (1, 100), "b": (2, 200)}


def test_a_restored_row_is_found_however_its_key_was_written() -> None:
    program = program_of(int, key=tuple[int, str])
    rows: Rows = [(b'[1, "\\u00e9"]', b"1", 0), (b'[2, "b"]', b"2", 0), (b'[2,"b"]', None, 1)]

    for task in (read(program, rows), restored(program, rows)):
        store = store_of(task)
        assert [store.get((1, "\u00e9")), store.get((2, "b"))] == [(1, 0), None]


def test_a_restored_row_of_another_type_is_reported_if_nothing_is_left_out() -> None:
    task = restored(program_of(int, key=str), [(b"a", b"poison", 0)])

    with pytest.raises(StreamsError, match="types have changed"):
        store_of(task).get("a")
