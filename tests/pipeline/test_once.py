"""`moldau pipeline run --once` ends when all is processed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.pipeline.data_directory import FINISHED, WAITING, PartState
from moldau.pipeline.pipeline import Job, Pipeline
from moldau.pipeline.settled import IdleWatch, Offsets, left_over
from moldau.pipeline.status import StatusRow
from tests.pipeline.files import pipeline
from tests.pipeline.running import Folder

IN, OUT = ("lines", 0), ("counts", 1)
DONE = {"words": {IN: 5}, "connect-write-counts": {OUT: 3}}


def offsets(committed: dict[str, dict[tuple[str, int], int]], **ends: int) -> Offsets:
    found = {IN: 5, OUT: 3}
    return Offsets({IN: 0, OUT: 0}, found | ({IN: ends["lines"]} if ends else {}), committed)


def test_nothing_is_left_when_all_groups_are_at_the_ends() -> None:
    assert left_over(pipeline(), offsets(DONE), [], {}) == []
    assert left_over(pipeline(), offsets({}), [], {}) == ["count-words", "write-counts"]
    behind = DONE | {"words": {IN: 4}}
    assert left_over(pipeline(), offsets(behind), [], {}) == ["count-words"]


def test_a_topic_whose_records_are_all_deleted_leaves_nothing() -> None:
    deleted = Offsets({IN: 5, OUT: 3}, {IN: 5, OUT: 3}, {})
    assert left_over(pipeline(), deleted, [], {}) == []


def test_a_topic_that_an_app_makes_counts_as_well() -> None:
    own = ("words-by-key-repartition", 0)
    found = Offsets(
        {IN: 0, OUT: 0, own: 0}, {IN: 5, OUT: 3, own: 9}, DONE | {"words": {IN: 5, own: 7}}
    )
    assert left_over(pipeline(), found, [], {}) == ["count-words"]


def test_a_connector_that_does_not_run_is_waited_for() -> None:
    rows = [
        StatusRow("read-lines", "source", "FAILED"),
        StatusRow("write-counts", "sink", "RUNNING"),
    ]
    assert left_over(pipeline(), offsets(DONE), rows, {}) == ["read-lines"]


def test_a_job_is_waited_for_until_it_has_finished_or_its_group_is_at_the_end() -> None:
    job = Job("count", 1, "count.py", reads=("lines",))
    alone = Pipeline("words", jobs=(job,))
    running = {"job count": PartState("job", state="RUNNING")}
    finished = {"job count": PartState("job", state=FINISHED)}
    assert left_over(alone, offsets({}), [], running) == ["count"]
    assert left_over(alone, offsets({}), [], finished) == []
    grouped = Pipeline("words", jobs=(Job("count", 1, "count.py", ("lines",), (), "g"),))
    assert left_over(grouped, offsets({"g": {IN: 4}}), [], running) == ["count"]
    assert left_over(grouped, offsets({"g": {IN: 5}}), [], running) == []


def test_a_job_that_waits_for_its_next_start_is_done_when_its_group_is_at_the_end() -> None:
    waiting = {"job count": PartState("job", state=WAITING)}
    job = Job("count", 1, "count.py", reads=("lines",), every_s=60)
    assert left_over(Pipeline("words", jobs=(job,)), offsets({}), [], waiting) == []
    grouped = Pipeline("words", jobs=(Job("count", 1, "count.py", ("lines",), (), "g"),))
    assert left_over(grouped, offsets({"g": {IN: 4}}), [], waiting) == ["count"]
    assert left_over(grouped, offsets({"g": {IN: 5}}), [], waiting) == []


def test_it_has_settled_when_nothing_moves_for_a_while() -> None:
    settled = IdleWatch(10)
    assert not settled.on_look([], offsets(DONE), 0.0)
    assert not settled.on_look([], offsets(DONE), 2.0)
    assert not settled.on_look([], offsets(DONE), 11.9)
    assert not settled.on_look([], offsets(DONE, lines=6), 12.1), "a topic has grown"
    assert not settled.on_look([], offsets(DONE, lines=6), 14.0)
    assert not settled.on_look(["count-words"], offsets(DONE, lines=6), 25.0)
    assert not settled.on_look([], offsets(DONE, lines=6), 26.0)
    assert settled.on_look([], offsets(DONE, lines=6), 36.0)


@pytest.mark.real
@pytest.mark.deep
def test_a_run_ends_by_itself_and_the_next_one_goes_on(tmp_path: Path) -> None:
    """The app is exactly-once, so the topic in its middle ends with the marker of a transaction."""
    folder = Folder.of_example(tmp_path)
    for words in (("to", "be", "or"), ("not", "to")):
        folder.write(*words)
        said = folder.moldau("pipeline", "run", "--once", "--idle", "3")
        assert "all records are processed" in said
    assert folder.counts() == {"to": 2, "be": 1, "or": 1, "not": 1}
    broker = folder.path / ".moldau" / "words" / "broker"
    logs = [str(each) for each in broker.glob("words-counts-repartition-*/*.log")]
    dumped = [folder.moldau("log", "dump", "--json", each).splitlines() for each in logs]
    ends = [json.loads(lines[-1]) for lines in dumped if lines]
    assert ends
    assert all(each.get("control") for each in ends), ends
    assert folder.moldau("pipeline", "run", "--idle", "3", code=2) == ""
