"""Stores in memory: the order of their rows, what the last commit left, and their changelogs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.streams import Streams, TopologyError, tumbling
from moldau.streams.dsl.stores import StateStore
from moldau.streams.engine.task import TaskSettings
from moldau.streams.running import make_task
from moldau.streams.worker.memory_stores import CommittedMemory, StagedMemory
from tests.streams.worker.running import Cluster, has, names

KEYS = st.binary(max_size=2)
WRITES = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=1)), max_size=5)
STEPS = st.lists(st.one_of(WRITES, st.tuples(KEYS, KEYS), st.just("commit")), max_size=12)


@given(STEPS, KEYS, st.none() | KEYS)
@settings(max_examples=200, deadline=None)
def test_rows_and_those_of_the_last_commit_are_what_a_dict_has(
    steps: list[Any], first: bytes, end: bytes | None
) -> None:
    store = StagedMemory()
    view = CommittedMemory(store)
    rows: dict[bytes, bytes] = {}
    committed: dict[bytes, bytes] = {}
    for step in steps:
        if step == "commit":
            store.committed()
            committed = dict(rows)
        elif isinstance(step, tuple):
            store.delete_range(*step)
            rows = {key: row for key, row in rows.items() if not step[0] <= key < step[1]}
        else:
            store.write(step)
            for key, value in step:
                rows.pop(key, None)
                if value is not None:
                    rows[key] = value
        for backing, wanted in ((store, rows), (view, committed)):
            inside = {key: row for key, row in wanted.items() if key >= first}
            inside = {key: row for key, row in inside.items() if end is None or key < end}
            assert list(backing.scan(first, end)) == sorted(inside.items())
            reverse = list(backing.scan(first, end, is_reverse=True))
            assert reverse == sorted(inside.items(), reverse=True)
            assert {key: backing.get(key) for key in rows} == {key: wanted.get(key) for key in rows}


async def test_rows_in_memory_are_counted_on_after_a_restart_by_their_changelogs(
    cluster: Cluster, tmp_path: Path
) -> None:
    name, lines, out = names()
    await cluster.make(lines, out)
    app = Streams(name)
    words = app.stream(lines, str).group_by(lambda word: word)
    words.count(name="counts", in_memory=True).changes().map_values(str).to(out)
    words.window(tumbling("1h")).count(name="by-hour", in_memory=True)
    make = partial(make_task, TaskSettings())
    for round_ in (1, 2):
        async with cluster.worker(app.plan(), str(tmp_path), make_task=make) as worker:
            await cluster.write(lines, "a", "b", "a")
            await cluster.read(out, has({"a": str(2 * round_), "b": str(round_)}))
            tasks = [each for each in worker.tasks.values() if each.database is not None]
            stored = [size for each in tasks for size in each.database.sizes()]  # type: ignore[union-attr]
            assert sum(each.rows for each in stored if each.name == "counts") == 2
            restored = [at for each in tasks for at in each.restoring.values()]
            assert {at.store for at in restored} == {"counts", "by-hour"}
            assert (sum(at.records for at in restored) >= 4) is (round_ == 2)


def test_a_misspelt_option_of_a_store_is_named() -> None:
    for make in (StateStore, partial(StateStore.versions, retention="1h")):
        with pytest.raises(TopologyError, match="it takes no in_memroy"):
            make("rows", in_memroy=True)  # type: ignore[call-arg]
