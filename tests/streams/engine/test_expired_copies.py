"""A copy that follows changelogs deletes what is out of retention, as the task does that writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.streams import Streams, session, tumbling
from moldau.streams.engine.batches import Chunk
from moldau.streams.engine.task import Task
from moldau.streams.plan.plan import Program
from moldau.streams.state.backing import MemoryBacking
from moldau.streams.state.changes import ChangelogRecords
from moldau.streams.state.versioned import VersionedStore

Define = Callable[[Streams], Any]
KINDS: dict[str, Define] = {
    "windows": lambda app: (
        app.stream("in", str, key=str)
        .group_by_key()
        .window(tumbling(100))
        .count(name="kept", retain=500)
    ),
    "sessions": lambda app: (
        app.stream("in", str, key=str)
        .group_by_key()
        .window(session(50, grace=200))
        .count(name="kept")
    ),
    "versions": lambda app: app.table("in", str, key=str, name="kept", versioned=400),
}


def program_of(kind: str) -> Program:
    app = Streams("app")
    KINDS[kind](app)
    (program,) = app.plan().programs
    return program


def rows(backing: MemoryBacking) -> dict[bytes, bytes]:
    return dict(backing.scan(b"", None))


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_has_the_rows_of_the_task_and_no_older_ones(kind: str) -> None:
    program = program_of(kind)
    (spec,) = program.stores
    active, copied, kept = MemoryBacking(), MemoryBacking(), MemoryBacking()
    task, copy, whole = (Task(program, 0, {"kept": each}) for each in (active, copied, kept))
    for number in range(60):
        time = 1 + number * 50
        key = f"key-{number % 5}".encode()
        chunk = Chunk([number], [time], [key], [b"x" if number % 7 else None], number + 1)
        if kind != "versions" and chunk.values[0] is None:
            continue
        task.add("in", chunk)
        task.process(0)
        changes = task.flush().get("kept")
        if changes is None:  # a table that is restored from its topic
            changes = ChangelogRecords()
            changes.add(key, chunk.values[0], time)
        for each in (copy, whole):
            each.restore("kept", changes)
        copy.expire_restored()
    assert len(rows(kept)) > 2 * len(rows(copied)), "without the expiry all of it stays"
    if kind == "versions":
        clock = 1 + 59 * 50
        short, long = VersionedStore(spec, copied), VersionedStore(spec, kept)
        for name in (f"key-{number}" for number in range(5)):
            for time in range(clock - 400, clock + 1, 25):
                assert short.as_of(name, time) == long.as_of(name, time)
    else:
        assert rows(copied) == rows(active)
