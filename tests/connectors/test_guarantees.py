"""Each connector says what its config promises, and why."""

from __future__ import annotations

import pytest

from moldau.connect.api import ExactlyOnceSupport
from moldau.connect.installed.plugins import catalogue
from moldau.connect.plugins import validate
from moldau.connectors.file.sink import FileStreamSinkConnector
from moldau.connectors.file.source import FileStreamSourceConnector
from moldau.connectors.jdbc.sink import JdbcSinkConnector
from moldau.connectors.jdbc.source import JdbcSourceConnector

SQLITE = {"connection.url": "jdbc:sqlite:a.db", "topic.prefix": "a-"}
POSTGRESQL = {"connection.url": "jdbc:postgresql://db/a", "topic.prefix": "a-"}
SQL_SERVER = {"connection.url": "jdbc:sqlserver://db:1433;databaseName=a", "topic.prefix": "a-"}
LATE = "rows that commit late are lost"
TWICE = "at-least-once: rows may come twice after a crash"


@pytest.mark.parametrize(
    ("connector", "props", "line"),
    [
        (JdbcSourceConnector, {"mode": "incrementing"}, TWICE),
        (JdbcSourceConnector, {"mode": "incrementing", **SQLITE}, TWICE),
        (JdbcSourceConnector, {"mode": "incrementing", **POSTGRESQL}, TWICE),
        (
            JdbcSourceConnector,
            {"mode": "incrementing", **POSTGRESQL, "late.commits.wait.ms": "0"},
            f"{TWICE}; rows that commit late are lost",
        ),
        (
            JdbcSourceConnector,
            {"mode": "incrementing", **SQL_SERVER},
            f"{TWICE}; rows that commit late are lost",
        ),
        (
            JdbcSourceConnector,
            {"mode": "timestamp", "timestamp.column.name": "changed", **SQL_SERVER},
            f"{TWICE}; {LATE}, unless timestamp.delay.interval.ms is longer",
        ),
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


BOTH = {
    "mode": "timestamp+incrementing",
    "timestamp.column.name": "changed",
    "incrementing.column.name": "id",
}


@pytest.mark.parametrize(
    ("database", "support"),
    [
        (SQLITE, ExactlyOnceSupport.SUPPORTED),
        (POSTGRESQL, ExactlyOnceSupport.SUPPORTED),
        ({**POSTGRESQL, "late.commits.wait.ms": "0"}, ExactlyOnceSupport.UNSUPPORTED),
        (SQL_SERVER, ExactlyOnceSupport.UNSUPPORTED),
    ],
)
def test_a_source_that_loses_late_commits_does_not_support_exactly_once(
    database: dict[str, str], support: ExactlyOnceSupport
) -> None:
    assert JdbcSourceConnector().exactly_once_support({**BOTH, **database}) is support


@pytest.mark.parametrize(
    ("props", "keys"),
    [
        ({**BOTH, **SQLITE}, []),
        ({**BOTH, **POSTGRESQL}, []),
        ({**BOTH, **POSTGRESQL, "late.commits.wait.ms": "0"}, ["late.commits.wait.ms"]),
        ({**BOTH, **SQL_SERVER}, ["timestamp.delay.interval.ms"]),
        ({**BOTH, **SQL_SERVER, "timestamp.delay.interval.ms": "5000"}, []),
        ({"mode": "incrementing", **SQL_SERVER}, ["mode"]),
        ({"mode": "bulk", **SQL_SERVER}, []),
    ],
)
def test_lint_warns_of_rows_that_commit_late(props: dict[str, str], keys: list[str]) -> None:
    config = {"name": "a", "connector.class": "JdbcSource", **props}

    infos = validate(catalogue(), config, ask_connector=False)

    assert [warning.key for warning in infos.warnings] == keys
