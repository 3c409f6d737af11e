"""Which files configs of connectors may name: those below the directories that the worker names."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.connect.herder.herder import remove
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
TO_SPARK = {
    "name": "s",
    "connector.class": "SparkSink",
    "topics": "t",
    "value.schema": "id BIGINT",
    "sink.format": "parquet",
}
FROM_SPARK = {"name": "s", "connector.class": "SparkSource", "topic": "t"}
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


@pytest.mark.parametrize(
    ("config", "name", "value", "is_allowed"),
    [
        (TO_SPARK, "checkpoint.location", "{}/logs/checkpoints", True),
        (TO_SPARK, "checkpoint.location", "{}/secret", False),
        (FROM_SPARK, "checkpoint.location", "file:{}/logs/out", False),
        ({**TO_SPARK, "name": "../../secret"}, "checkpoint.location", "{}/logs/checkpoints", False),
        ({**TO_SPARK, "name": "/secret"}, "checkpoint.location", "{}/logs/checkpoints", False),
        ({**TO_SPARK, "name": "a/b"}, "checkpoint.location", "{}/logs/checkpoints", True),
        (TO_SPARK, "sink.path", "{}/logs/rows", True),
        (TO_SPARK, "sink.path", "file:{}/logs/rows", True),
        (TO_SPARK, "sink.path", "file://{}/logs/rows", True),
        (TO_SPARK, "sink.path", "{}/logs/../secret", False),
        (TO_SPARK, "sink.path", "file:{}/secret", False),
        (TO_SPARK, "sink.path", "FILE:{}/secret", False),
        (TO_SPARK, "sink.path", "file://{}/secret", False),
        (TO_SPARK, "sink.path", "file://here{}/logs", False),
        (TO_SPARK, "sink.path", "file://{}/logs/%2e%2e/secret", False),
        (TO_SPARK, "sink.path", "file://{}/secret/#/../../logs", False),
        (TO_SPARK, "sink.path", "hdfs:{}/logs", False),
        (FROM_SPARK, "source.path", "{}/logs/*.json", True),
        (FROM_SPARK, "source.path", "{}/logs/{{a,b}}/*", True),
        (FROM_SPARK, "source.path", "{}/{{logs,secret}}", False),
        (FROM_SPARK, "source.path", "{}/logs/{{a,..}}/secret", False),
        (FROM_SPARK, "source.path", "{}/logs/{{a,/../../secret}}", False),
        (FROM_SPARK, "source.path", "{}/logs/\\.\\./secret", False),
        (FROM_SPARK, "source.option.path", "{}/secret", False),
        (FROM_SPARK, "source.option.sourceArchiveDir", "{}/secret", False),
        (FROM_SPARK, "source.option.key", "{}/secret", False),
        (FROM_SPARK, "source.option.dateFormat", "dd/MM/yyyy", True),
        (FROM_SPARK, "source.option.uri", "sqlite:///{}/secret/a.db", False),
        (FROM_SPARK, "source.option.uri", "http://localhost/secret", True),
        (TO_SPARK, "sink.option.warehouse", "file://{}/secret", False),
        (TO_SPARK, "sink.option.warehouse", "{}/logs/warehouse", True),
        (TO_SPARK, "sink.option.checkpointLocation", "{}/secret", False),
        (TO_SPARK, "jdbc.url", "jdbc:sqlite:{}/secret/a.db", False),
        (TO_SPARK, "jdbc.url", "jdbc:sqlite:{}/logs/a.db", True),
        (TO_SPARK, "jdbc.url", "jdbc:postgresql://localhost/secret", True),
        (FROM_SPARK, "query", "SELECT * FROM csv.`{}/logs/a` JOIN text.`{}/secret/b`", False),
        (FROM_SPARK, "query", "SELECT * FROM csv . `file:{}/secret/b`", False),
        (FROM_SPARK, "query", "SELECT s.`a column`, '{}/secret' FROM csv.`{}/logs/a` s", True),
        (FROM_SPARK, "source.table", "text.`{}/secret/a`", False),
        (TO_SPARK, "transforms.sql", "SELECT * FROM source, text.`{}/secret`", False),
    ],
)
def test_a_connector_of_spark_names_files_below_a_named_directory(
    config: dict[str, str],
    name: str,
    value: str,
    is_allowed: bool,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "cwd").mkdir()
    monkeypatch.chdir(folder / "cwd")
    given = {
        **config,
        "checkpoint.location": f"{folder}/logs/checkpoints",
        name: value.format(folder, folder),
    }
    for directories in (f"{folder}/logs", f"{folder}/alias,."):
        refused = refused_files(given, {FILE_DIRECTORIES: directories})
        assert (set(refused) == set()) is is_allowed, refused
        assert is_allowed or set(refused) == {name}


def test_a_removal_leaves_what_a_connector_may_not_name(folder: Path) -> None:
    checkpoints = folder / "secret" / "s"
    (checkpoints / "1").mkdir(parents=True)
    given = {
        **TO_SPARK,
        "sink.path": f"{folder}/logs/rows",
        "checkpoint.location": f"{folder}/secret",
        "checkpoint.cleanup": "true",
    }
    with pytest.raises(ConfigError, match=FILE_DIRECTORIES):
        remove("s", given, {FILE_DIRECTORIES: f"{folder}/logs"}, set())
    assert (checkpoints / "1").is_dir()


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
