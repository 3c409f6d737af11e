"""Errors of drivers are understood: try again, blame a record, or call a person."""

from __future__ import annotations

import sqlite3

import psycopg
import pymysql
import pytest
import sqlalchemy as sa

from moldau.connectors.jdbc.failures import Meaning, understand


class WithState(psycopg.Error):  # type: ignore[misc]
    def __init__(self, text: str, sqlstate: str) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("sqlstate", "meaning", "hint"),
    [
        ("08006", Meaning.TRANSIENT, "reachable"),
        ("40P01", Meaning.TRANSIENT, ""),
        ("53100", Meaning.TRANSIENT, "disk"),
        ("57P01", Meaning.TRANSIENT, "stopped"),
        ("22P02", Meaning.POISON, ""),
        ("23505", Meaning.POISON, ""),
        ("42P01", Meaning.PERMANENT, "auto.create"),
        ("42703", Meaning.PERMANENT, "auto.evolve"),
        ("42804", Meaning.POISON, ""),
        ("42883", Meaning.POISON, ""),
        ("44000", Meaning.POISON, ""),
        ("P0001", Meaning.POISON, ""),
        ("42P10", Meaning.PERMANENT, "pk.fields"),
        ("42601", Meaning.PERMANENT, ""),
        ("28P01", Meaning.PERMANENT, "connection.password"),
        ("99999", Meaning.PERMANENT, ""),
    ],
)
def test_sqlstates(sqlstate: str, meaning: Meaning, hint: str) -> None:
    failure = understand(WithState("it failed", sqlstate))

    assert failure.meaning is meaning
    assert hint in failure.hint


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (pymysql.err.OperationalError(1213, "Deadlock found"), Meaning.TRANSIENT),
        (pymysql.err.OperationalError(2003, "Can't connect"), Meaning.TRANSIENT),
        (pymysql.err.OperationalError(1205, "Lock wait", sqlstate="HY000"), Meaning.TRANSIENT),
        (pymysql.err.DataError(1265, "Data truncated", sqlstate="01000"), Meaning.POISON),
        (pymysql.err.DataError(1406, "Data too long"), Meaning.POISON),
        (pymysql.err.IntegrityError(1062, "Duplicate entry"), Meaning.POISON),
        (pymysql.err.OperationalError(1045, "Access denied"), Meaning.PERMANENT),
        (pymysql.err.ProgrammingError(1146, "no table"), Meaning.PERMANENT),
        (psycopg.OperationalError("connection refused"), Meaning.TRANSIENT),
        (psycopg.OperationalError("FATAL:  password authentication failed"), Meaning.PERMANENT),
        (psycopg.DataError("text fields cannot contain NUL"), Meaning.POISON),
        (psycopg.ProgrammingError("cannot adapt type 'dict'"), Meaning.POISON),
        (sqlite3.IntegrityError("NOT NULL constraint failed"), Meaning.POISON),
        (sqlite3.OperationalError("no such table: x"), Meaning.PERMANENT),
        (OverflowError("Python int too large"), Meaning.POISON),
        (ConnectionResetError("reset"), Meaning.TRANSIENT),
        (RuntimeError("what"), Meaning.PERMANENT),
    ],
)
def test_what_drivers_raise(error: Exception, meaning: Meaning) -> None:
    assert understand(error).meaning is meaning


def test_a_cause_is_one_line_without_sql_and_parameters() -> None:
    original = WithState("duplicate key\nDETAIL:  Key (id)=(1) exists.", "23505")
    wrapped = sa.exc.IntegrityError("INSERT INTO t VALUES (%s)", ("secret",), original)

    assert str(understand(wrapped)) == "duplicate key (Key (id)=(1) exists.)"


def test_a_real_lock_of_sqlite_is_transient(tmp_path: object) -> None:
    path = f"{tmp_path}/x.db"
    one, two = sqlite3.connect(path), sqlite3.connect(path, timeout=0)
    one.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(sqlite3.OperationalError) as locked:
            two.execute("BEGIN IMMEDIATE")
        assert understand(locked.value).meaning is Meaning.TRANSIENT
    finally:
        one.close()
        two.close()
