"""Each connector says what its config promises, and why."""

from __future__ import annotations

import pytest

from moldau.connectors.file.sink import FileStreamSinkConnector
from moldau.connectors.file.source import FileStreamSourceConnector
from moldau.connectors.jdbc.sink import JdbcSinkConnector
from moldau.connectors.jdbc.source import JdbcSourceConnector

TWICE = "at-least-once: rows may come twice after a crash"


@pytest.mark.parametrize(
    ("connector", "props", "line"),
    [
        (JdbcSourceConnector, {"mode": "incrementing"}, TWICE),
        (
            JdbcSourceConnector,
            {"mode": "bulk"},
            "at-least-once: bulk reads every row at each interval",
        ),
        (JdbcSinkConnector, {}, f"{TWICE}, unless exactly.once=true"),
        (
            JdbcSinkConnector,
            {"insert.mode": "upsert", "pk.mode": "record_key", "errors.tolerance": "all"},
            "at-least-once: a repeated record overwrites its own row; bad records are dropped",
        ),
        (
            JdbcSinkConnector,
            {"exactly.once": "true", "insert.mode": "upsert"},
            "exactly-once: offsets are in the transaction of the rows",
        ),
        (
            FileStreamSourceConnector,
            {"file": "x"},
            "at-least-once: lines may come twice after a crash",
        ),
        (
            FileStreamSinkConnector,
            {"file": "x"},
            "at-least-once: lines may come twice after a crash",
        ),
        (
            FileStreamSinkConnector,
            {
                "directory": "x",
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": "bad",
            },
            "exactly-once: offsets are in the names of the files",
        ),
    ],
)
def test_the_guarantee_is_one_line(
    connector: type[JdbcSourceConnector | JdbcSinkConnector]
    | type[FileStreamSourceConnector | FileStreamSinkConnector],
    props: dict[str, str],
    line: str,
) -> None:
    assert connector.guarantee(props) == line
