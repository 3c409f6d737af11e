"""Which files configs of connectors may name: those below the directories that the worker names."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.connect.herder.operations import validated
from moldau.connect.task.file_places import (
    FILE_DIRECTORIES,
    check_files,
    refused_files,
    with_own_files,
)
from moldau.connect.worker.settings import complete
from moldau.errors import ConfigError

SOURCE = {"name": "s", "connector.class": "FileStreamSource", "topic": "t"}
SINK = {"name": "s", "connector.class": "FileStreamSink", "topics": "t"}
TABLES = {"name": "s", "connector.class": "JdbcSource", "topic.prefix": "t-", "mode": "bulk"}
ROWS = {"name": "s", "connector.class": "JdbcSink", "topics": "t"}
JAVA = {**SINK, "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory that is allowed, with links beside one that is not."""
    for name in ("logs", "logs2", "secret"):
        (tmp_path / name).mkdir()
    (tmp_path / "logs" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "alias").symlink_to(tmp_path / "logs")
    return tmp_path


@pytest.mark.parametrize(
    ("config", "name", "path", "is_allowed"),
    [
        (SOURCE, "file", "logs/a.txt", True),
        (SOURCE, "file", "logs", True),
        (SOURCE, "file", "alias/a.txt", True),
        (SOURCE, "file", "secret/../logs/a.txt", True),
        (SOURCE, "file", "logs/../secret/a.txt", False),
        (SOURCE, "file", "logs/out/a.txt", False),
        (SOURCE, "file", "logs2/a.txt", False),
        (SOURCE, "file", "", False),
        (SOURCE, "file.glob", "logs/*.txt", True),
        (SOURCE, "file.glob", "log[s]/a.txt", False),
        (SOURCE, "file.glob", "logs/**/../../secret/*", False),
        (SOURCE, "file.glob", "logs/out/*", False),
        (SOURCE, "file.glob", "*/a.txt", False),
        (SINK, "file", "logs/a.txt", True),
        (SINK, "directory", "logs/new", True),
        (SINK, "directory", "secret", False),
        (JAVA, "file", "secret/a.txt", False),
    ],
)
def test_a_path_is_below_a_named_directory_with_links_resolved(
    config: dict[str, str], name: str, path: str, is_allowed: bool, folder: Path
) -> None:
    given = {**config, name: f"{folder}/{path}"}
    for worker, expected in (
        ({FILE_DIRECTORIES: f"{folder}/logs"}, is_allowed),
        ({FILE_DIRECTORIES: f" {folder}/none , {folder}/alias/"}, is_allowed),
        ({FILE_DIRECTORIES: ""}, False),
        ({FILE_DIRECTORIES: "/"}, ".." not in path or not is_pattern(path)),
    ):
        assert (refused_files(given, worker) == {}) is expected, worker


@pytest.mark.parametrize("config", [TABLES, ROWS], ids=["source", "sink"])
@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("jdbc:sqlite:{}/logs/a.db?journal_mode=WAL", True),
        ("jdbc:sqlite:{}/secret/a.db", False),
        ("jdbc:sqlite:file:{}/logs/%2e%2e/secret/a.db?mode=ro", False),
        ("sqlite:///{}/logs/out/a.db", False),
        ("jdbc:duckdb:{}/logs/a.db", True),
        ("jdbc:duckdb:{}/secret/a.db", False),
        ("duckdb:///{}/secret/a.db", False),
        ("jdbc:duckdb:", True),
        ("jdbc:sqlite::memory:", True),
        ("jdbc:postgresql://localhost/secret", True),
    ],
)
def test_a_database_that_is_a_file_is_below_a_named_directory(
    config: dict[str, str], address: str, is_allowed: bool, folder: Path
) -> None:
    given = {**config, "connection.url": address.format(folder)}
    worker = {FILE_DIRECTORIES: f"{folder}/logs"}
    errors = {each.key: each.text for each in validated(given, worker, asks=False).errors}
    assert (FILE_DIRECTORIES not in errors.get("connection.url", "")) is is_allowed
    assert refused_files(given, {FILE_DIRECTORIES: with_own_files({}, [given])}) == {}


def is_pattern(path: str) -> bool:
    return "*" in path


@pytest.mark.parametrize(
    ("path", "is_allowed"),
    [
        ("s3://bucket/logs/a", True),
        ("S3://bucket/logs/*/a", True),
        ("s3://bucket/logs2/a", False),
        ("s3://bucket/logs/../a", False),
        ("gs://bucket/logs/a", False),
        ("simplecache::s3://bucket/logs/a", False),
        ("file:///etc/passwd", False),
        ("local:///etc/passwd", False),
    ],
)
def test_an_address_is_below_a_named_one(path: str, is_allowed: bool) -> None:
    worker = {FILE_DIRECTORIES: "s3://bucket/logs"}
    assert (refused_files({**SOURCE, "file": path}, worker) == {}) is is_allowed


def test_an_address_of_a_local_file_is_a_path(folder: Path) -> None:
    worker = {FILE_DIRECTORIES: f"{folder}/logs"}
    assert refused_files({**SOURCE, "file": f"file://{folder}/logs/a"}, worker) == {}
    assert refused_files({**SOURCE, "file": f"file://{folder}/logs/out/a"}, worker)


def test_workers_of_a_group_allow_none_and_a_worker_alone_its_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    group, alone = (complete({}, is_distributed=each) for each in (True, False))
    for path, is_alone in (("a.txt", True), ("../a.txt", False), (f"{folder}/logs/a", True)):
        given = {**SOURCE, "file": path}
        assert refused_files(given, group)
        assert (refused_files(given, alone) == {}) is is_alone, path


def test_validation_and_start_say_the_same(folder: Path) -> None:
    given, worker = {**SOURCE, "file": f"{folder}/secret/a"}, complete({}, is_distributed=True)
    errors = {problem.key: problem.text for problem in validated(given, worker, asks=True).errors}
    assert FILE_DIRECTORIES in errors["file"]
    with pytest.raises(ConfigError) as failed:
        check_files(given, worker)
    assert errors["file"] in str(failed.value)
    assert not validated(given, {**worker, FILE_DIRECTORIES: str(folder)}, asks=True).errors
    assert not validated(given, {}, asks=False).errors, "a check without a worker"


def test_a_reference_is_judged_by_its_value(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERE", str(folder / "secret"))
    worker = {
        FILE_DIRECTORIES: f"{folder}/logs",
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",  # noqa: E501
        "config.providers.env.param.allowlist.pattern": "WHERE",
    }
    given = {**SINK, "file": "${env:WHERE}/a"}
    assert [each.key for each in validated(given, worker, asks=False).errors] == ["file"]
    allowing = {**worker, FILE_DIRECTORIES: "${env:WHERE}"}
    assert not validated(given, allowing, asks=False).errors


def test_what_the_operators_own_files_name_is_allowed(folder: Path) -> None:
    configs = [{**SOURCE, "file.glob": f"{folder}/logs/*"}, {**SINK, "file": f"{folder}/secret/x"}]
    found = with_own_files({}, [*configs, {"connector.class": "unknown", "file": "/"}])
    assert found == f".,{folder}/logs,{folder}/secret/x"
    assert with_own_files({FILE_DIRECTORIES: "/data"}, []) == "/data"
    for each in configs:
        assert refused_files(each, {FILE_DIRECTORIES: found}) == {}
