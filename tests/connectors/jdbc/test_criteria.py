"""Mistakes in the columns of a mode and in `query` are found at validation, each with a hint."""

from __future__ import annotations

import re

import pytest

from moldau.connect.api import ConnectError
from moldau.connectors.jdbc.source import JdbcSourceConnector
from tests.connectors.jdbc.tasks import drained, source_task
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

CREATE = "CREATE TABLE item (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR(40), seen TIMESTAMP)"
NR = {"mode": "incrementing", "incrementing.column.name": "nr"}
ID = {"mode": "incrementing", "incrementing.column.name": "id"}
AT = {"mode": "timestamp", "timestamp.column.name": "seen"}


def problems(database: TestDatabase, **settings: str) -> list[str]:
    props = {"connection.url": database.url, "topic.prefix": "t", **settings}
    return [f"{each.key}: {each.text}" for each in JdbcSourceConnector().validate(props)]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (NR, "incrementing.column.name: table .*item has no column nr -> .*id, name, seen"),
        ({**AT, "timestamp.column.name": "x"}, "timestamp.column.name: .* has no column x -> "),
        ({**ID, "query": "SELEKT"}, None),
        ({**ID, "query": "SELECT * FROM item WHERE id > 0"}, "query: .* -> .*FROM .* AS q"),
        ({"mode": "bulk", "query": "SELECT * FRM item"}, "query: .* -> correct query"),
        ({"mode": "bulk", "query": "SELECT nr FROM item"}, "query: .*nr.* -> correct query"),
        ({"mode": "bulk", "query": "SELECT * FROM items"}, "query: .*items.* -> correct query"),
        ({**ID, "query": "SELECT * FROM (SELECT * FROM item WHERE id > 0) AS q"}, None),
        ({**AT, "query": "SELECT * FROM item"}, None),
        ({"mode": "bulk"}, None),
    ],
)
def test_what_a_source_cannot_read_is_told_at_validation(
    database: TestDatabase, settings: dict[str, str], wanted: str | None
) -> None:
    database.run(CREATE)

    found = problems(database, **settings)

    if wanted is None:
        assert found == []
    else:
        assert len(found) == 1
        assert re.search(wanted, found[0]), found


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({**ID, "query": "SELECT * FROM item WHERE id > 0"}, r"-> .*FROM \(\.\.\.\) AS q"),
        ({"mode": "bulk", "query": "SELECT * FRM item"}, "-> correct query"),
        ({**NR, "query": "SELECT * FROM item"}, "nr.* -> correct"),
    ],
)
def test_a_task_tells_the_same(database: TestDatabase, settings: dict[str, str], hint: str) -> None:
    database.run(CREATE)
    database.run("INSERT INTO item VALUES (1, 'a', '2024-05-01 12:00:00')")
    task = source_task(database, **settings)

    with pytest.raises(ConnectError, match=hint):
        drained(task)
    task.stop()
