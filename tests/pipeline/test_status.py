"""`moldau pipeline status`: snapshots become rows."""

from __future__ import annotations

from typing import Any

from moldau.pipeline.data_directory import PartState, last_error_in
from moldau.pipeline.restarts import PAUSE_S_MAX, Restarts
from moldau.pipeline.status import (
    GroupStatus,
    LastErrors,
    Snapshot,
    StatusRow,
    connector_rows,
    state_changes,
    status_rows,
)
from tests.pipeline.files import pipeline


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


def test_pauses_grow_while_a_part_dies_soon_and_begin_anew_when_it_has_lived() -> None:
    restarts = Restarts()
    pauses = []
    for now in range(10):
        restarts.on_start(now)
        pauses.append(restarts.on_end(-9, now + 0.1))

    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == PAUSE_S_MAX
    restarts.on_start(100)
    assert restarts.on_end(1, 200) == 0.5
    assert restarts.on_end(2, 201) is None
