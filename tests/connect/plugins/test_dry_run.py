"""`dry-run` says what would keep a connector from working now; `plan` where its records go."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from moldau.cli import main
from moldau.connect.commands.check import problems_of
from moldau.connect.commands.forecast import forecast

AWAY = "jdbc:postgresql://127.0.0.1:1/shop"
SINK = {"name": "a", "connector.class": "JdbcSink", "topics": "orders"}
SOURCE = {"name": "a", "connector.class": "JdbcSource", "mode": "bulk", "topic.prefix": "p-"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("CREATE TABLE here (id INTEGER PRIMARY KEY)")
    return f"jdbc:sqlite:{tmp_path}/a.db"


def dry_run(**config: str) -> str:
    found = problems_of(dict(config), {}, asks=True, is_dry_run=True)["errors"]
    return "\n".join(found)


@pytest.mark.parametrize("config", [SINK, SOURCE])
def test_a_database_that_is_down_is_named_by_a_dry_run_only(config: dict[str, str]) -> None:
    config = {**config, "connection.url": AWAY}

    assert "connection.url: cannot connect to" in dry_run(**config)
    assert problems_of(dict(config), {}, asks=True)["errors"] == []


def test_missing_tables_are_named(url: str) -> None:
    sink = {**SINK, "connection.url": url}
    assert "there is no table orders" in dry_run(**sink)
    assert dry_run(**{**sink, "auto.create": "true"}) == ""
    assert dry_run(**{**sink, "topics": "here"}) == ""
    source = {**SOURCE, "connection.url": url}
    assert dry_run(**source) == ""
    assert "no table is called gone" in dry_run(**{**source, "table.whitelist": "here,gone"})


def test_missing_files_are_named(tmp_path: Path) -> None:
    config = {"name": "a", "connector.class": "FileStreamSource", "topic": "t"}
    (tmp_path / "in").touch()

    assert dry_run(**{**config, "file": str(tmp_path / "in")}) == ""
    assert "there is no file" in dry_run(**{**config, "file": str(tmp_path / "out")})
    assert "no file fits" in dry_run(**{**config, "file.glob": str(tmp_path / "*.csv")})


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
@pytest.mark.parametrize("more", [{}, {"query": "SELECT 1 AS id"}])
def test_a_source_makes_no_database(tmp_path: Path, kind: str, more: dict[str, str]) -> None:
    file = tmp_path / "typo.db"
    source = {**SOURCE, "connection.url": f"jdbc:{kind}:{file}", **more}

    found = problems_of(dict(source), {}, asks=True)["errors"]

    assert len(found) == 1
    assert f"there is no file {file} -> " in found[0]
    assert not file.exists()
    sink = {**SINK, "connection.url": f"jdbc:{kind}:{file}"}
    assert problems_of(dict(sink), {}, asks=True)["errors"] == []


def test_a_plan_names_the_topics_of_a_source(url: str) -> None:
    jdbc = {**SOURCE, "connection.url": url, "table.whitelist": "main.here"}
    assert forecast("a", jdbc, {})["writes"] == "p-here"
    lines = {"connector.class": "FileStreamSource", "topic": "t", "file": "in"}
    assert forecast("a", lines, {})["writes"] == "t"


def test_a_plan_names_each_task(url: str) -> None:
    lines = {"connector.class": "FileStreamSource", "topic": "t", "file": "in"}
    assert forecast("a", lines, {})["tasks"] == ["task 0"]
    jdbc = {**SOURCE, "connection.url": url, "table.whitelist": "here"}
    assert forecast("a", jdbc, {})["tasks"][0].startswith("task 0 with tables=")


def test_a_plan_shows_no_secret_that_a_reference_gives(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secrets").write_text("pw=hush-0815\nurl=" + url + "\n")
    config = {
        **SOURCE,
        "connection.url": f"${{file:{tmp_path}/secrets:url}}",
        "connection.password": f"${{file:{tmp_path}/secrets:pw}}",
        "connection.sslpassword": "hush-0816",
    }
    (tmp_path / "a.json").write_text(json.dumps({"name": "a", "config": config}))
    providers = (
        "--set", "config.providers=file",
        "--set", "config.providers.file.class=FileConfigProvider",
        "--set", f"config.providers.file.param.allowed.paths={tmp_path}",
    )  # fmt: skip

    for more in ((), ("--json",)):
        assert main(["connect", "plan", str(tmp_path / "a.json"), *providers, *more]) == 0
        shown = capsys.readouterr().out
        assert "tables=" in shown
        assert "hush" not in shown
        assert url not in shown
