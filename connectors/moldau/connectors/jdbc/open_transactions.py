"""Finds the transactions that are open in PostgreSQL and in MySQL or MariaDB.

*PostgreSQL.* An INSERT or UPDATE locks its table, and nextval() its sequence, before either does
anything, and `pg_locks` shows these locks without any right. So the writers are the sessions with
such a lock; an xid comes only later. now() is the time at which a transaction began, so where times
count, a transaction that has not written yet counts too.

*MySQL, MariaDB.* A running statement has its NOW() before InnoDB has a transaction for it, so the
list of statements is read first, and InnoDB's list of transactions after it. InnoDB keeps that list
for 0.1 s. It holds the statement that each session was running, so a list with the mark of this
query is fresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, Final

from moldau.connect.errors import ConnectError, RetriableError
from moldau.connectors.jdbc.database import Database, PoisonError
from moldau.connectors.jdbc.late_commits import OpenTransaction

_READER_LOCK: Final = 1_836_016_740
"""The class of an advisory lock that a source's sessions have: they only read."""
READER_SESSION: Final = {"postgresql": (f"SELECT pg_advisory_lock_shared({_READER_LOCK}, 0)",)}
"""Statements for a new session of a source."""

_AGE: Final = "CAST(EXTRACT(EPOCH FROM clock_timestamp() - a.xact_start) AS BIGINT)"
_WRITERS: Final = (
    f"SELECT DISTINCT l.virtualtransaction, l.pid, a.usename, {_AGE} "
    "FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.relation >= 16384 "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND l.pid IS DISTINCT FROM pg_backend_pid()"
)
_ALL: Final = (
    f"SELECT l.virtualtransaction, l.pid, a.usename, {_AGE} "
    "FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid "
    "WHERE l.locktype = 'virtualxid' AND l.mode = 'ExclusiveLock' AND l.pid <> pg_backend_pid() "
    "AND a.datname = current_database() AND a.usesysid IS NOT NULL "
    "AND NOT EXISTS (SELECT 1 FROM pg_locks r WHERE r.pid = l.pid "
    f"AND r.locktype = 'advisory' AND r.classid = {_READER_LOCK}) "
    "UNION ALL SELECT virtualtransaction, NULL, NULL, NULL FROM pg_locks "
    "WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND pid IS NULL"
)
_AND_STANDBY: Final = (
    "SELECT pg_is_in_recovery(), found.* FROM (SELECT 1) AS one "
    "LEFT JOIN ({query}) AS found (key, pid, usename, age) ON TRUE"
)
"""The rows of another query, or one row without a key if there are none."""

_STATEMENTS: Final = (
    "SELECT id, user, time FROM information_schema.processlist "
    "WHERE id <> CONNECTION_ID() AND command IN ('Query', 'Execute') "
    "AND info IS NOT NULL AND info NOT RLIKE '^[[:space:](]*(SELECT|SHOW|COMMIT|ROLLBACK)'"
)
_INNODB: Final = (
    "SELECT /* moldau {mark} */ trx_mysql_thread_id, trx_id, "
    "TIMESTAMPDIFF(SECOND, trx_started, NOW()), trx_query, "
    "trx_mysql_thread_id = CONNECTION_ID() FROM information_schema.innodb_trx"
)
_CACHE_S: Final = 0.11
_ATTEMPTS: Final = 20
_NO_NUMBER: Final = 2**48
"""MySQL shows such numbers for transactions that have only read."""

_marks = count(1)


class UnseenTransactions(ConnectError):
    """The database does not show its transactions to this user, or has not those of the writers."""


def open_transactions(database: Database, *, by_time: bool) -> list[OpenTransaction]:
    """Return the transactions that may still commit rows. `by_time`: rows are found by a time.

    Raise UnseenTransactions if they cannot be seen.
    """
    try:
        if database.dialect.name == "postgresql":
            return _of_postgresql(database, _ALL if by_time else _WRITERS)
        return _of_mysql(database)
    except RetriableError:
        raise
    except (ConnectError, PoisonError) as error:
        raise UnseenTransactions(str(error)) from error


def _of_postgresql(database: Database, query: str) -> list[OpenTransaction]:
    with database.transaction() as connection:
        rows = connection.exec_driver_sql(_AND_STANDBY.format(query=query)).fetchall()
    if rows[0][0]:
        raise UnseenTransactions("a standby does not show the transactions of its primary")
    return [
        OpenTransaction(key, _described(pid, user, age), is_detached=pid is None)
        for _, key, pid, user, age in rows
        if key is not None
    ]


def _of_mysql(database: Database) -> list[OpenTransaction]:
    for _ in range(_ATTEMPTS):
        found = _fresh_of_mysql(database)
        if found is not None:
            return found
    raise RetriableError("information_schema.innodb_trx is stale: too many sessions read it")


def _fresh_of_mysql(database: Database) -> list[OpenTransaction] | None:
    """Return the transactions; None, after a wait, if InnoDB answers with an old list."""
    mark = f"{id(database)}-{next(_marks)}"
    with database.transaction() as connection:
        # With a transaction of its own this session is in InnoDB's list, and so is its mark.
        connection.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        statements = connection.exec_driver_sql(_STATEMENTS).fetchall()
        rows = connection.exec_driver_sql(_INNODB.format(mark=mark)).fetchall()
        if not any(is_own and mark in (text or "") for *_, text, is_own in rows):
            connection.exec_driver_sql(f"DO SLEEP({_CACHE_S})")
            return None
    found = {
        str(session): OpenTransaction(str(session), _described(session, user, age))
        for session, user, age in statements
    }
    found.update((each.key, each) for each in _writers(rows))
    return list(found.values())


def _writers(rows: Iterable[Sequence[Any]]) -> Iterable[OpenTransaction]:
    for session, number, age, _, is_own in rows:
        if not is_own and 0 < int(number) < _NO_NUMBER:
            is_detached = session == 0
            key = f"prepared {number}" if is_detached else str(session)
            text = _described(session or None, None, age)
            yield OpenTransaction(key, text, int(number), is_detached)


def _described(session: int | None, user: str | None, age_s: int | None) -> str:
    if session is None:
        return "a prepared transaction"
    text = f"the transaction of pid {session}"
    details = ([f"user {user}"] if user else []) + (
        [f"open for {age_s} s"] if age_s is not None else []
    )
    return f"{text} ({', '.join(details)})" if details else text
