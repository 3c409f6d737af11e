"""Mistakes in the columns of a mode and in `query` are found at validation, each with a hint."""

from __future__ import annotations

import re

import pytest
import sqlalchemy as sa

from moldau.connect.api import ConnectError
from moldau.connectors.jdbc.source import JdbcSourceConnector
from tests.connectors.contexts import WatchContext
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


@pytest.mark.databases("postgresql")
@pytest.mark.parametrize(
    ("settings", "key", "kind"),
    [
        ({**ID, "incrementing.column.name": "name"}, "incrementing.column.name", "numbers"),
        ({**AT, "timestamp.column.name": "id"}, "timestamp.column.name", "times"),
    ],
)
def test_a_column_of_an_unfit_type_is_told_at_validation_and_by_a_task(
    database: TestDatabase, settings: dict[str, str], key: str, kind: str
) -> None:
    database.run(CREATE)
    settings = {**settings, "validate.non.null": "false"}
    hint = f"operator does not exist.* -> .*{key} to name a column of {kind}"

    (found,) = problems(database, **settings)
    task = source_task(database, **settings)
    with pytest.raises(ConnectError, match=hint):
        drained(task)
    task.stop()

    assert re.search(f"{key}: table .*item: {hint}", found), found


@pytest.mark.databases("postgresql")
def test_a_missing_right_to_a_table_is_told_by_a_dry_run(database: TestDatabase) -> None:
    database.run(CREATE, "DROP ROLE IF EXISTS no_reader", "CREATE ROLE no_reader LOGIN")
    url = sa.make_url(database.url).set(username="no_reader").render_as_string()
    props = {"connection.url": url, "topic.prefix": "t", "mode": "bulk"}

    (found,) = JdbcSourceConnector().dry_run(props)

    assert found.key == "connection.user"
    assert re.search("table .*item: permission denied.* -> grant", found.text), found
    assert JdbcSourceConnector().validate(props) == []


@pytest.mark.databases("sqlite")
def test_tables_are_not_searched_by_a_bad_expression(database: TestDatabase) -> None:
    database.run(CREATE)
    assert problems(database, mode="bulk", **{"table.include.list": "item["}) == []


@pytest.mark.databases("sqlite")
def test_a_view_is_said_to_need_its_table_type(database: TestDatabase) -> None:
    database.run(CREATE, "CREATE VIEW seen_item AS SELECT * FROM item")
    props = {"connection.url": database.url, "topic.prefix": "t", "mode": "bulk"}

    (found,) = JdbcSourceConnector().dry_run({**props, "table.whitelist": "seen_item"})

    assert "table.types=VIEW" in found.text
    views = {**props, "table.whitelist": "seen_item", "table.types": "VIEW"}
    assert JdbcSourceConnector().dry_run(views) == []


@pytest.mark.databases("postgresql")
def test_connections_that_are_lost_between_two_looks_for_tables_are_not_told(
    database: TestDatabase,
) -> None:
    database.run(CREATE)
    context, connector = WatchContext(), JdbcSourceConnector()
    connector.initialize(context)
    connector.start({"connection.url": database.url, "topic.prefix": "t", "mode": "bulk"})
    try:
        database.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        connector._look()
        assert context.waits_for is None
    finally:
        connector.stop()
