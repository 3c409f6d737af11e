"""Every block of docs/pipelines.md is true."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.pipeline.sections import PipelineSection
from tests.pipeline.files import problem_lines, read
from tests.pipeline.guide import GUIDE, blocks
from tests.pipeline.running import Folder, wait_until


def transcripts() -> dict[str, str]:
    """Each command of the guide, and what it says."""
    found: dict[str, str] = {}
    for block in blocks(""):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.setdefault(command.split("#")[0].strip(), output)
    return found


def moldau(folder: Path, *words: str) -> str:
    """Standard output of a command."""
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "moldau.cli", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The folder of the first pipeline."""
    (tmp_path / "words.py").write_text(blocks("python")[0])
    (tmp_path / "pipeline.yaml").write_text(blocks("yaml")[0])
    (tmp_path / "input.txt").write_text("to be or not to be\n")
    return tmp_path


@pytest.mark.real
def test_the_first_pipeline_is_sound_and_is_drawn_like_that(first: Path) -> None:
    for action in ("lint", "draw"):
        assert moldau(first, "pipeline", action) == transcripts()[f"moldau pipeline {action}"]
    assert moldau(first, "pipeline", "draw", "--svg").startswith("<svg")


@pytest.mark.real
@pytest.mark.deep
def test_the_first_pipeline_runs_like_that(first: Path) -> None:
    folder = Folder(first)
    with folder.running() as run:
        wait_until(lambda: len(folder.lines()) == 4, "four words")
        said = [re.sub(r":\d+$", ":0", line) for line in run.said]
        shown = folder.moldau("pipeline", "status").splitlines()
        run.stop()
    guide = transcripts()["moldau pipeline run"].splitlines()
    assert said == [re.sub(r":\d+$", ":0", line) for line in guide]
    table = transcripts()["moldau pipeline status"].splitlines()
    assert [line.split()[:3] for line in shown] == [line.split()[:3] for line in table]
    assert {each["word"]: each["count"] for each in folder.lines()} == {
        "to": 2,
        "be": 2,
        "or": 1,
        "not": 1,
    }


def test_the_source_with_a_password_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "hunter2")

    assert problem_lines(blocks("yaml")[1]) == []


def test_the_pipeline_with_variables_is_sound() -> None:
    assert problem_lines(blocks("yaml")[2]) == []


def test_the_pipeline_with_a_job_is_sound() -> None:
    script = "from pyspark.sql import SparkSession\n\n"
    script += next(each for each in blocks("") if "find-large" in each and "spark = " in each)

    assert problem_lines(blocks("yaml")[3], files={"/srv/p/large_orders.py": script}) == []


def test_the_pipeline_with_a_folder_is_sound() -> None:
    files = {"/srv/p/large/spark-pipeline.yml": blocks("yaml")[5]}

    assert problem_lines(blocks("yaml")[4], files=files) == []


def test_the_pipeline_of_several_files_is_sound() -> None:
    files = {
        "/srv/p/topics.yaml": "topics: {lines: {partitions: 2}}\n",
        "/srv/p/sinks/files.yaml": "sinks:\n  write: {connector.class: FileStreamSink, "
        "topics: lines, file: out.txt}\n",
    }

    assert problem_lines(blocks("yaml")[6], files=files) == []


def test_types_that_do_not_fit_are_told_like_that() -> None:
    (expected,) = re.findall(r"^pipeline\.yaml:(8: .*)$", GUIDE, re.MULTILINE)

    assert problem_lines(blocks("yaml")[7]) == [expected]


def test_the_pipeline_with_a_target_is_sound() -> None:
    assert problem_lines(blocks("yaml")[8]) == []
    found = read(blocks("yaml")[8], target="prod")
    assert found.problems == ()
    (sink,) = found.pipeline.sinks
    assert (sink.config["file"], sink.config["tasks.max"]) == ("/srv/words/lines.txt", "2")


def test_the_mistakes_are_told_like_that() -> None:
    mistakes = GUIDE[GUIDE.index("## Find mistakes") :]
    expected = re.findall(r"^pipeline\.yaml:(\d.*)$", mistakes, re.MULTILINE)

    assert problem_lines(blocks("yaml")[9]) == expected
    assert len(expected) == 4


def test_the_table_names_every_section() -> None:
    table = re.findall(r"^\| `([a-z]+)` \|", GUIDE, re.MULTILINE)

    assert table == ["pipeline", "include", "variables", "topics", "sources", "topologies", "jobs",
                     "sinks", "worker", "broker"]  # fmt: skip
    assert set(table) - {"include"} == set(PipelineSection.model_fields)
