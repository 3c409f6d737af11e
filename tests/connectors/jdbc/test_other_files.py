"""Statements of a config reach no file beside the database that its address names."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from moldau.connect.api import ConnectError
from moldau.connectors.jdbc.address import parse_address
from moldau.connectors.jdbc.database import Database, PoisonError
from moldau.connectors.jdbc.dialects import dialect_of
from moldau.connectors.pace import Pace


def run(address: str, statement: str) -> None:
    parsed = parse_address(address)
    database = Database(parsed, dialect_of(parsed.dialect), Pace(), attempts=1, backoff_ms=0)
    try:
        with database.transaction() as connection:
            connection.exec_driver_sql(statement).fetchall()
    finally:
        database.close()


@pytest.mark.parametrize(
    ("address", "statement"),
    [
        ("jdbc:sqlite:{0}/own.db", "ATTACH '{0}/other.db' AS other"),
        ("jdbc:duckdb:", "SELECT * FROM read_text('{0}/other.txt')"),
        ("duckdb:///{0}/own.duckdb", "SELECT * FROM '{0}/other.csv'"),
        ("jdbc:duckdb:", "ATTACH '{0}/other.db' AS other (TYPE sqlite)"),
        ("jdbc:duckdb:", "SET enable_external_access = true"),
    ],
)
def test_another_file_is_refused(address: str, statement: str, tmp_path: Path) -> None:
    if "duckdb" in address:
        pytest.importorskip("duckdb_engine")
    (tmp_path / "other.txt").write_text("secret")
    (tmp_path / "other.csv").write_text("secret\n1\n")
    sqlite3.connect(tmp_path / "other.db").close()

    run(address.format(tmp_path), "SELECT 1")
    with pytest.raises((ConnectError, PoisonError)):
        run(address.format(tmp_path), statement.format(tmp_path))
