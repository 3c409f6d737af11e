"""What `spark-submit` is told, and a runner that it never starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.connectors.spark.connector import SparkSinkConnector
from moldau.connectors.spark.process import RunnerProcess
from moldau.connectors.spark.submission import Submission, java_properties
from moldau.errors import ConfigError
from moldau.spark.submit import find_submit, home_of
from tests.connectors.spark.orders_lake import ORDERS_LAKE, config


def _home(folder: Path, script: str) -> Path:
    submit = folder / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(f"#!/bin/sh\n{script}\n")
    submit.chmod(0o755)
    return folder


def test_the_named_spark_comes_before_that_of_the_environment_and_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    named, other = _home(tmp_path / "a", ""), _home(tmp_path / "b", "")
    monkeypatch.delenv("SPARK_HOME", raising=False)

    assert home_of(find_submit(None)).endswith("/pyspark")
    monkeypatch.setenv("SPARK_HOME", str(other))
    assert home_of(find_submit(None)) == str(other)
    assert home_of(find_submit(str(named))) == str(named)


def test_a_directory_without_spark_is_a_problem_of_its_key(tmp_path: Path) -> None:
    props = {**ORDERS_LAKE, "spark.deploy": "submit", "spark.home": str(tmp_path)}

    found = {each.key: each.text for each in SparkSinkConnector().validate(props)}

    assert "there is no bin/spark-submit: name the directory" in found["spark.home"]
    assert str(tmp_path) in found["spark.home"]
    with pytest.raises(ConfigError, match="there is no bin/spark-submit"):
        find_submit(str(tmp_path))


@pytest.mark.real
def test_settings_are_in_a_file_and_an_end_without_a_runner_is_told(tmp_path: Path) -> None:
    """The script keeps what it was told, and ends as spark-submit does for a wrong master."""
    home = _home(tmp_path, 'echo "$@" > $SPARK_HOME/words; cp "$8" $SPARK_HOME/settings; exit 3')
    more = {"spark.conf.password": "hunter2", "spark.master": "spark://host:7077"}
    submission = Submission(find_submit(str(home)), config(**more), "lake")

    process = RunnerProcess(submission)
    try:
        process.send({"type": "start"})
        ended = process.take(60)
    finally:
        process.end(60)

    assert ended == {"type": "end"}
    assert process.exit_code == 3
    words = (home / "words").read_text()
    assert words.startswith("--master spark://host:7077 --deploy-mode client --name moldau-lake ")
    assert "hunter2" not in words
    settings = (home / "settings").read_text()
    assert settings.endswith("\nspark.password=hunter2\n")
    assert settings.startswith("spark.executorEnv.PYTHONPATH=")
    assert not Path(words.split()[-1]).exists()


def test_settings_keep_their_backslashes_and_lines() -> None:
    assert java_properties({"spark.b": "C:\\x\ny", "spark.a": "1"}) == (
        "spark.a=1\nspark.b=C:\\\\x\\ny\n"
    )


@pytest.mark.real
def test_modules_in_the_directory_of_the_worker_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `python -m` finds them for the other values of spark.deploy."""
    (tmp_path / "shop.py").write_text("rows = 'of the shop'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    script = (
        'python3 -S -c "import shop; print(shop.rows)" > $SPARK_HOME/out; cp "$8" $SPARK_HOME/conf'
    )
    submission = Submission(find_submit(str(_home(tmp_path / "home", script))), config(), "lake")

    process = RunnerProcess(submission)
    try:
        assert process.take(60) == {"type": "end"}
    finally:
        process.end(60)

    assert (tmp_path / "home" / "out").read_text() == "of the shop\n"
    settings = (tmp_path / "home" / "conf").read_text()
    assert f"spark.executorEnv.PYTHONPATH={tmp_path}:/elsewhere\n" in settings
