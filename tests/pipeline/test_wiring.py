"""The rules of how the parts of a pipeline are wired, on pipelines without a file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from moldau.cli.command import UsageError
from moldau.pipeline.app_plans import parse_plan
from moldau.pipeline.pipeline import Connector, Pipeline, Topic
from moldau.pipeline.wiring import check_wiring
from moldau.streams.commands.given_app import load_app
from tests.pipeline.files import WORDS, problem_lines

SPARK = "io.moldau.SparkSinkConnector"


def sink(name: str, path: str, topic: str = "a", kind: str = SPARK) -> Connector:
    config = {"connector.class": kind, "sink.format": "delta", "sink.path": path}
    return Connector(name, 7, is_source=False, config=config, reads=(topic,))


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [
        ("/lake/a", "/lake/a", True),
        ("/lake/a", "file:///lake/b/../a/", True),
        ("lake/a", "./lake/a", True),
        ("s3a://lake/a", "s3a://lake/a/", True),
        ("/lake/a", "/lake/b", False),
        ("s3a://lake/a", "/lake/a", False),
    ],
)
def test_two_sinks_of_spark_in_one_directory_are_an_error(
    one: str, other: str, is_shared: bool
) -> None:
    topics = (Topic("a", 1, is_external=True),)
    sinks = (sink("first", one), sink("second", other))

    found = [each.text for each in check_wiring(Pipeline("p", topics, sinks=sinks))]

    text = f"sinks.second: sinks.first writes into the directory {other} too: give each its own"
    assert found == [text] * is_shared


def test_sinks_with_a_directory_for_each_topic_share_none() -> None:
    topics = tuple(Topic(name, 1, is_external=True) for name in "ab")
    path = "/lake/${topic}"

    apart = Pipeline("p", topics, sinks=(sink("first", path), sink("second", path, "b")))
    same = Pipeline("p", topics[:1], sinks=(sink("first", path), sink("second", path)))

    assert check_wiring(apart) == []
    assert len(check_wiring(same)) == 1


def test_an_app_that_cannot_be_imported_is_named_as_that_where_its_topics_are_needed() -> None:
    text = WORDS.replace("words:app", "words:broken")

    found = problem_lines(text)

    assert found[0].endswith("error: topologies.count-words: NameError: name 'x' is not defined")
    assert found[1].endswith(
        "warning: sinks.write-counts reads counts; whether topologies.count-words writes it is "
        "not known: it cannot be imported"
    )


def test_a_module_that_ends_the_process_is_named(tmp_path: Path) -> None:
    (tmp_path / "ends_at_import.py").write_text("import sys\nsys.exit(3)\n")

    with pytest.raises(UsageError, match=r"ends_at_import ends the process .*: SystemExit"):
        load_app("ends_at_import:app", str(tmp_path))
    sys.path.remove(str(tmp_path))


def test_a_process_that_ends_without_a_word_is_the_fault_of_the_import() -> None:
    found = parse_plan(5, "", "")

    assert found == "its module ends the process when it is imported (code 5)"
