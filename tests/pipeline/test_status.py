"""`moldau pipeline status`: snapshots become rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from moldau.pipeline.data_directory import PartState, last_error_in
from moldau.pipeline.settled import Offsets, unread_by_group
from moldau.pipeline.status import (
    GroupStatus,
    LastErrors,
    Snapshot,
    StatusRow,
    connector_rows,
    state_changes,
    status_rows,
)
from moldau.streams.plan.misplaced import MisplacedKey
from tests.pipeline.files import WORDS, app_plan, pipeline, read


def snapshot(at_s: float, committed: int, **more: Any) -> Snapshot:
    found: dict[str, Any] = {
        "parts": {
            "broker": PartState("broker", 1, "RUNNING"),
            "worker": PartState("worker", 2, "RUNNING"),
            "app count-words": PartState("app", 3, "RUNNING", 2, "app count-words has ended"),
        },
        "connectors": {
            "read-lines": {"state": "RUNNING", "tasks": [{"state": "RUNNING", "rate": 7.0}]},
            "write-counts": {
                "state": "RUNNING",
                "restarts": 1,
                "tasks": [
                    {"state": "FAILED", "error": "disk full -> make room", "restarts": 2},
                    {"state": "RUNNING"},
                ],
            },
        },
        "groups": {
            "words": GroupStatus("Stable", 12, committed),
            "connect-write-counts": GroupStatus("Stable", 3, committed),
        },
    }
    return Snapshot(at_s, **{**found, **more})


def test_each_part_has_its_state_lag_rate_restarts_and_error() -> None:
    rows = status_rows(pipeline(), snapshot(12.0, 150), snapshot(10.0, 100))

    assert rows == [
        StatusRow("broker", "broker", "RUNNING"),
        StatusRow("worker", "worker", "RUNNING"),
        StatusRow("read-lines", "source", "RUNNING", rate=7.0),
        StatusRow("count-words", "app", "RUNNING", 12, 25.0, 2, "app count-words has ended", 0),
        StatusRow("write-counts", "sink", "DEGRADED", 3, 25.0, 3, "disk full -> make room"),
    ]
    assert rows[3].cells() == (
        *("count-words", "app", "RUNNING", "12", "0", "25", "2", "app count-words has ended"),
    )


def test_what_does_not_answer_is_told_and_the_rest_is_shown() -> None:
    silent = snapshot(1.0, 0, connectors={}, groups={}, problems={"worker": "no answer"})

    rows = {each.part: each for each in status_rows(pipeline(), silent, silent)}

    assert (rows["worker"].state, rows["worker"].error) == ("UNREACHABLE", "no answer")
    assert rows["read-lines"].state == "UNKNOWN"
    assert rows["count-words"].lag is None


def test_what_does_not_run_is_missing() -> None:
    rows = status_rows(pipeline(), Snapshot(1.0), Snapshot(0.0))

    assert {each.part: each.state for each in rows} == {
        "read-lines": "MISSING",
        "count-words": "MISSING",
        "write-counts": "MISSING",
    }


def test_an_app_on_another_machine_is_seen_by_its_group() -> None:
    rows = status_rows(pipeline(), snapshot(2.0, 0, parts={}), snapshot(1.0, 0))

    assert next(each.state for each in rows if each.part == "count-words") == "RUNNING"


def test_a_connector_that_fails_and_runs_again_is_told_once_each() -> None:
    reported: dict[str, str] = {}

    def rows(state: str) -> list[StatusRow]:
        task = {"state": state, "error": "disk full"}
        return connector_rows(
            pipeline(), {"write-counts": {"state": "RUNNING", "tasks": [task]}, "other": {}}
        )

    assert state_changes(rows("RUNNING"), reported) == []
    assert state_changes(rows("FAILED"), reported) == ["sink write-counts is FAILED: disk full"]
    assert state_changes(rows("FAILED"), reported) == []
    assert state_changes(rows("RUNNING"), reported) == ["sink write-counts is RUNNING again"]
    assert state_changes(rows("RUNNING"), reported) == []


def test_an_error_stays_until_the_connector_has_run_for_a_while() -> None:
    errors = LastErrors()
    failed, well = (
        StatusRow("a", "sink", "FAILED", error="disk full"),
        StatusRow("a", "sink", "RUNNING"),
    )

    assert errors.on_rows([failed], 0)
    assert not errors.on_rows([well], 59)
    assert errors.texts == {"a": "disk full"}
    assert not errors.on_rows([failed], 60)
    assert not errors.on_rows([well], 119)
    assert errors.on_rows([well], 120)
    assert errors.texts == {}


def test_misplaced_keys_of_an_app_are_shown_and_reported_once() -> None:
    errors = LastErrors()
    key = MisplacedKey("lines", b"k", 1, 0, "murmur2", "crc32")
    events: list[dict[str, object]] = [{"text": "x"}, {"text": str(key), **key.context}]

    assert errors.on_events("count-words", events) == [f"count-words: {key}"]
    assert errors.on_events("count-words", events) == []
    parts = {"app count-words": PartState("app", 3, "RUNNING")}
    now = snapshot(2.0, 0, parts=parts, last_errors=dict(errors.texts))
    row = next(each for each in status_rows(pipeline(), now, now) if each.part == "count-words")
    assert (row.state, row.error) == ("RUNNING", str(key))


def test_misplaced_keys_are_warnings_of_lint() -> None:
    plans = {"words:app": replace(app_plan("words", ["lines"], ["counts"]), misplaced=("wrong",))}

    [found] = read(WORDS, plans=plans).problems

    assert (found.text, found.is_error) == ("topologies.count-words: wrong", False)


def test_the_last_error_of_a_connector_that_runs_again_is_shown() -> None:
    now = snapshot(2.0, 0, last_errors={"read-lines": "no such file"})

    row = next(each for each in status_rows(pipeline(), now, now) if each.part == "read-lines")

    assert (row.state, row.error) == ("RUNNING", "no such file")


def test_the_last_error_of_a_log_is_one_line() -> None:
    log = (
        "2026-01-02T03:04:05.678Z INFO  moldau.streams it runs\n"
        "2026-01-02T03:04:05.678Z ERROR moldau.streams it fails topic=lines\n"
        "  a line of a traceback\n"
    )

    assert last_error_in(log) == "moldau.streams it fails topic=lines"
    assert last_error_in(log + "moldau: no such topic\n") == "no such topic"
    assert last_error_in("all is well\n") is None


def test_what_never_committed_has_the_whole_topic_to_read() -> None:
    found = pipeline()
    begins = {("lines", 0): 5, ("lines", 1): 0, ("counts", 0): 0, ("counts", 1): 0}
    ends = {("lines", 0): 25, ("lines", 1): 8, ("counts", 0): 3, ("counts", 1): 4}
    groups = {"connect-write-counts": GroupStatus("Empty", 2, 1, frozenset({("counts", 0)}))}

    unread = unread_by_group(found, groups, Offsets(begins, ends, {}))
    connectors = {"write-counts": {"state": "RUNNING"}}
    now = Snapshot(1.0, connectors=connectors, groups=groups, unread=unread)
    lags = {each.part: each.lag for each in status_rows(found, now, now)}

    assert lags == {"read-lines": None, "count-words": 28, "write-counts": 6}


def test_a_topic_that_does_not_exist_has_no_lag() -> None:
    found = pipeline()

    assert unread_by_group(found, {}, Offsets({}, {}, {})) == {}
