"""A worker of an app with a pattern ends: the app goes on, or ends with the worker's error."""

from __future__ import annotations

import asyncio
import re

import pytest

from moldau.streams import Streams
from moldau.streams.plan.plan import Plan
from moldau.streams.problems import InputDeleted
from moldau.streams.running import run_as_topics_come
from moldau.streams.worker.reports import Reports


def watched(existing: list[set[str]], deleted: str) -> list[tuple[str, ...]]:
    """Run workers, the first of which finds a topic deleted. Return the inputs of each."""
    app = Streams("app")
    app.stream(re.compile("in-.*"), str).to("out")
    app.stream("lines", str).to("other")
    runs: list[tuple[str, ...]] = []

    async def names() -> set[str]:
        return existing[min(len(runs), len(existing) - 1)]

    async def work(plan: Plan) -> None:
        runs.append(plan.source_topics())
        if len(runs) == 1:
            raise InputDeleted("app", [deleted])

    asyncio.run(run_as_topics_come(app.plan(), names, work, 0.01, Reports()))
    return runs


def test_a_deleted_topic_of_a_pattern_is_left_out() -> None:
    runs = watched([{"in-1", "in-2", "lines"}, {"in-2", "lines"}], "in-1")
    assert [set(topics) for topics in runs] == [{"in-1", "in-2", "lines"}, {"in-2", "lines"}]


def test_a_deleted_topic_that_the_app_names_ends_it() -> None:
    with pytest.raises(InputDeleted):
        watched([{"in-1", "lines"}, {"in-1"}], "lines")
