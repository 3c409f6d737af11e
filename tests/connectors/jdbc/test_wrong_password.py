"""A database that wants a password and gets a wrong one: the cause and a hint, and no password."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import sqlalchemy as sa

from moldau.connect.api import ConnectError
from moldau.connect.task.diagnosis import trace_of
from moldau.connectors.jdbc.sink import JdbcSinkConnector
from moldau.connectors.jdbc.sink_task import JdbcSinkTask
from tests.connectors.contexts import SinkContext, VirtualPace
from tests.databases import TestDatabase, database, mariadb_server, postgresql_server

__all__ = ["database", "mariadb_server", "postgresql_server"]

USER, RIGHT, WRONG = "locked_out", "right-0815", "wrong-4711"


@pytest.fixture
def locked(database: TestDatabase) -> str:
    """The address of a server that asks one user for a password."""
    ((name,),) = database.rows("SHOW hba_file")
    rules = Path(str(name))
    if not rules.exists():
        pytest.skip("the server's rules are on another machine")
    before = rules.read_text()
    places = (f"local all {USER}", f"host all {USER} 0.0.0.0/0", f"host all {USER} ::0/0")
    if USER not in before:
        rules.write_text("".join(f"{place} scram-sha-256\n" for place in places) + before)
    database.run(
        f"DROP ROLE IF EXISTS {USER}",
        f"CREATE ROLE {USER} LOGIN PASSWORD '{RIGHT}'",
        "SELECT pg_reload_conf()",
    )
    url = sa.make_url(database.url).set(username=None, password=None)
    return url.render_as_string(hide_password=False)


@pytest.mark.databases("postgresql")
def test_a_wrong_password_is_told_with_a_hint_and_shown_nowhere(
    locked: str, caplog: pytest.LogCaptureFixture
) -> None:
    props = {"connection.url": locked, "connection.user": USER, "connection.password": WRONG,
             "connection.attempts": "1", "name": "sink", "topics": "t"}  # fmt: skip
    task = JdbcSinkTask(VirtualPace())
    task.initialize(SinkContext())

    with caplog.at_level(logging.DEBUG), pytest.raises(ConnectError) as caught:
        task.start(props)
    task.stop()

    trace = trace_of(caught.value)
    line = trace.split("\n", 1)[0]
    assert "cannot connect to" in line
    assert "-> check connection.user and connection.password" in line
    problems = JdbcSinkConnector().validate(props)
    assert any("connection.password" in str(problem) for problem in problems)
    for text in (trace, caplog.text, str(problems)):
        assert WRONG not in text
