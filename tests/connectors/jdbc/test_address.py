"""`jdbc:` addresses become SQLAlchemy's, with the driver's arguments; passwords stay hidden."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from moldau.connectors.jdbc.address import AddressError, file_of, parse_address


@pytest.mark.parametrize(
    ("text", "url", "arguments"),
    [
        ("jdbc:postgresql://h/db", "postgresql+psycopg://h:5432/db", {}),
        ("jdbc:postgresql://h:6000/db?user=u&password=p%26q",
         "postgresql+psycopg://u:p%26q@h:6000/db", {}),
        ("jdbc:postgresql:db", "postgresql+psycopg:///db", {}),
        ("jdbc:postgresql://[::1]:5/db", "postgresql+psycopg://[::1]:5/db", {}),
        ("jdbc:postgresql://h/db?ssl=true&ApplicationName=a&currentSchema=s&connectTimeout=7",
         "postgresql+psycopg://h:5432/db",
         {"sslmode": "verify-full", "application_name": "a", "options": "-csearch_path=s",
          "connect_timeout": 7}),
        ("jdbc:postgresql://a,b:6000/db?targetServerType=primary",
         "postgresql+psycopg:///db",
         {"host": "a,b", "port": "5432,6000", "target_session_attrs": "primary"}),
        ("jdbc:sqlite:/a/b.db", "sqlite:////a/b.db", {}),
        ("jdbc:sqlite::memory:", "sqlite:///:memory:", {}),
        ("jdbc:sqlite:a.db?busy_timeout=1500", "sqlite:///a.db", {"timeout": 1.5}),
        ("jdbc:sqlite:file:a.db?mode=ro", "sqlite:///file:a.db?mode=ro&uri=true", {}),
        ("jdbc:mysql://h/db?useSSL=false&connectTimeout=3000",
         "mysql+pymysql://h:3306/db?charset=utf8mb4", {"connect_timeout": 3}),
        ("jdbc:mariadb://u:p@h:1/db", "mariadb+pymysql://u:p@h:1/db?charset=utf8mb4", {}),
        ("jdbc:duckdb:/a/b.db", "duckdb:////a/b.db", {}),
        ("jdbc:duckdb:", "duckdb:///:memory:", {}),
        ("jdbc:sqlserver://h:1434;databaseName=d;user=u;password=p;encrypt=true",
         "mssql+pymssql://u:p@h:1434/d", {"encryption": "require"}),
        ("jdbc:oracle:thin:@//h:1522/svc", "oracle+oracledb://h:1522?service_name=svc", {}),
        ("jdbc:oracle:thin:u/p@h:1521:SID", "oracle+oracledb://u:p@h:1521/SID", {}),
        ("jdbc:oracle:thin:@(DESCRIPTION=x)", "oracle+oracledb://", {"dsn": "(DESCRIPTION=x)"}),
        ("postgresql://h/db", "postgresql+psycopg://h/db", {}),
        ("mysql+pymysql://h/db", "mysql+pymysql://h/db", {}),
    ],
)  # fmt: skip
def test_addresses_are_mapped(text: str, url: str, arguments: dict[str, Any]) -> None:
    address = parse_address(text)

    assert address.url == sqlalchemy.engine.make_url(url)
    assert address.arguments == arguments
    assert address.notes == ()


def test_parameters_of_javas_driver_are_dropped_with_a_note() -> None:
    address = parse_address("jdbc:postgresql://h/db?reWriteBatchedInserts=true&colour=red")

    assert address.arguments == {}
    assert address.notes == (
        "connection.url: reWriteBatchedInserts is ignored, because it tunes Java's driver",
        "connection.url: colour is ignored, because it is not known",
    )


def test_sqlite_pragmas_are_run_on_each_connection() -> None:
    address = parse_address("jdbc:sqlite:a.db?journal_mode=WAL&foreign_keys=on")

    assert address.on_connect == ("PRAGMA journal_mode=WAL", "PRAGMA foreign_keys=on")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("jdbc:db2://h/d", "no driver for jdbc:db2:"),
        ("no address", "neither jdbc"),
        ("jdbc:mysql:h", r"jdbc:mysql://host:3306/db"),
        ("jdbc:postgresql://h:x/db", "'x' is no port"),
        ("jdbc:postgresql://h/db?connectTimeout=soon", "connectTimeout=soon is no valid value"),
        ("jdbc:oracle:oci:@h", "write jdbc:oracle:thin"),
        ("jdbc:sqlserver://h;integratedSecurity=true", "needs Windows"),
        ("jdbc:sqlite:a.db?enable_load_extension=true", "is refused"),
        ("jdbc:mysql://h/d?allowLoadLocalInfile=true", "is refused"),
        ("mysql+pymysql://h/d?local_infile=1", "is refused"),
        ("mysql+pymysql://h/d?read_default_file=/a", "is refused"),
        ("jdbc:duckdb:a.db;enable_external_access=true", "is refused"),
        ("jdbc:sqlite:a.db?x=1;DROP", "no SQLite pragma"),
        ("duckdb://u:p@h/tmp/x", "duckdb is a file here"),
        ("sqlite://h/x.db", "sqlite is a file here"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(text: str, reason: str) -> None:
    with pytest.raises(AddressError, match=reason) as refused:
        parse_address(text)

    assert "\n" not in str(refused.value)


def test_no_text_of_an_address_holds_its_password() -> None:
    address = parse_address("jdbc:postgresql://h/db?user=u&password=secret1")
    with_login = address.with_login("v", "secret2").with_parameters({"sslpassword": "secret3"})

    for each in (address, with_login):
        assert "secret" not in f"{each} {each!r}"
    assert with_login.url.username == "v"
    assert with_login.arguments == {"sslpassword": "secret3"}


def test_connection_settings_that_load_code_are_refused() -> None:
    with pytest.raises(AddressError, match=r"connection\.socketFactory is refused"):
        parse_address("jdbc:postgresql://h/db").with_parameters({"socketFactory": "x"})


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("jdbc:sqlite:a.db", "a.db"),
        ("jdbc:sqlite:/x/a.db?journal_mode=WAL", "/x/a.db"),
        ("jdbc:sqlite:/x/:memory:/../a.db", "/x/:memory:/../a.db"),
        ("jdbc:sqlite:file:/x/a.db?mode=ro", "/x/a.db"),
        ("jdbc:sqlite:file:/x/%2e%2e/a.db?mode=ro", "/x/../a.db"),
        ("jdbc:sqlite:file:/x/a.db%00/../b.db?mode=ro", "/x/a.db"),
        ("sqlite:///file:/x/a.db#/../b.db?uri=true", "/x/a.db"),
        ("sqlite:///file://localhost/x/a.db?uri=true&mode=ro", "/x/a.db"),
        ("sqlite:////x/a.db", "/x/a.db"),
        ("sqlite+pysqlite:///a.db", "a.db"),
        ("jdbc:duckdb:/x/a.db", "/x/a.db"),
        ("duckdb:////x/a.db", "/x/a.db"),
        ("jdbc:sqlite:", None),
        ("jdbc:sqlite::memory:", None),
        ("jdbc:sqlite:file:/x/a.db?mode=memory", None),
        ("jdbc:duckdb:", None),
        ("jdbc:duckdb::memory:shared", None),
        ("jdbc:postgresql://h/db", None),
        ("no address", None),
    ],
)
def test_the_file_of_an_address_is_the_one_that_is_opened(text: str, path: str | None) -> None:
    assert file_of(text) == path


@pytest.mark.parametrize("text", ["/x/%2e%2e/a.db", "/x/a.db#/../b.db", "//localhost/x/../a.db"])
def test_sqlite_opens_the_file_that_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    place = text.replace("/x/", f"{tmp_path}/x/")
    uri = f"file:{place}?mode=rwc"

    with closing(sqlite3.connect(uri, uri=True)) as connection:
        ((_, _, opened),) = connection.execute("PRAGMA database_list").fetchall()

    found = parse_address(f"jdbc:sqlite:{uri}").file
    assert found is not None
    assert Path(found).resolve() == Path(opened).resolve()
