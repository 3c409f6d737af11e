"""The archive of Spark's classes: when it is named to Java, and that Java reads it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from moldau.errors import ConfigError
from moldau.spark.class_archive import OPTIONS, find_archive, make_archive, with_archive
from moldau.spark.java import Java, find_java
from tests.connectors.spark.runners import need_spark

JAVA = Java("/opt/java", 17, "JAVA_HOME")
OTHER = Java("/opt/java-21", 21, "JAVA_HOME")

_SESSION = """import sys
from moldau.spark import new_session

conf = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
new_session("archived", master="local[1]", conf=conf).stop()
"""


@pytest.fixture
def variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Of a user without an environment of its own for Python."""
    monkeypatch.setattr(sys, "base_prefix", sys.prefix)
    return {"XDG_CACHE_HOME": str(tmp_path)}


def write_archive(options: str) -> None:
    """What Java does at its end."""
    draft = shlex.split(options)[0].partition("=")[2]
    Path(draft).write_bytes(b"x" * 321)


@pytest.fixture
def archive(variables: dict[str, str]) -> Path:
    path, size = make_archive(JAVA, variables, write_archive)
    assert size == 321
    return Path(path)


def test_the_archive_is_named_to_its_java_behind_what_the_user_gave(
    archive: Path, variables: dict[str, str]
) -> None:
    given = {**variables, OPTIONS: "-Dmine=1"}

    words = shlex.split(with_archive(JAVA, given)[OPTIONS])

    assert words[:2] == ["-Dmine=1", f"-XX:SharedArchiveFile={archive}"]
    assert with_archive(JAVA, {**variables, OPTIONS: "-XX:SharedArchiveFile=/mine"}) == {}
    assert with_archive(OTHER, variables) == {}


def test_an_archive_that_was_cut_is_not_named(archive: Path, variables: dict[str, str]) -> None:
    archive.write_bytes(b"x" * 320)

    assert find_archive(JAVA, variables) is None
    assert with_archive(JAVA, variables) == {}


def test_a_new_archive_takes_the_place_of_the_old_one_and_leaves_others(
    archive: Path, variables: dict[str, str]
) -> None:
    other, _ = make_archive(OTHER, variables, write_archive)
    archive.rename(archive.with_name(archive.name.replace("-321.", "-999.")))

    assert make_archive(JAVA, variables, write_archive)[0] == str(archive)
    assert sorted(archive.parent.iterdir()) == sorted([archive, Path(other)])


def test_a_java_that_writes_none_is_told(variables: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has written no archive of classes: use a JDK"):
        make_archive(JAVA, variables, lambda options: None)
    assert list((tmp_path / "moldau").iterdir()) == []


@pytest.mark.real
@pytest.mark.deep
def test_java_reads_its_classes_from_the_archive(tmp_path: Path) -> None:
    need_spark()
    if find_archive(find_java(), os.environ) is None:
        pytest.skip("there is no archive: moldau spark warm")
    log = tmp_path / "classes"
    options = {**os.environ, OPTIONS: f"-Xlog:class+load:file={log}"}

    subprocess.run(  # noqa: S603
        [sys.executable, "-c", _SESSION], env=options, check=True, timeout=120
    )

    (context,) = [
        line for line in log.read_text().splitlines() if " org.apache.spark.SparkContext " in line
    ]
    assert context.endswith("source: shared objects file (top)")
