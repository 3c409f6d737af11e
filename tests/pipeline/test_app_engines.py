"""`engine: spark` of a topology without a process: lint, plan, draw, status, command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.pipeline.app_plans import explain_apps
from moldau.pipeline.commandlines import app_words
from moldau.pipeline.data_directory import PartState
from moldau.pipeline.picture import pipeline_svg, pipeline_text
from moldau.pipeline.pipeline import App, AppPlan
from moldau.pipeline.plan import Facts, plan, plan_text
from moldau.pipeline.status import GroupStatus, Snapshot, status_rows
from tests.pipeline.files import WORDS, pipeline, problem_lines

MASTER = "    settings: {spark.master: 'spark://one:7077', checkpoint.location: /shared/words}\n"
ON_SPARK = WORDS.replace("app: words:app\n", f"app: words:app\n    engine: spark\n{MASTER}")


def on_spark(settings: str, more: str = "") -> str:
    return ON_SPARK.replace(MASTER, f"    settings: {{{settings}}}\n{more}")


def test_it_is_planned_and_drawn_with_its_master() -> None:
    found = pipeline(ON_SPARK)
    where = "words:app, on Spark spark://one:7077"

    assert f"({where})" in plan_text(plan(found, Facts()))
    assert f"count-words  app {where}" in pipeline_text(found)
    assert "on Spark" in pipeline_svg(found)
    assert found.groups == ("words-spark", "connect-write-counts")


def test_another_engine_than_that_of_the_last_run_is_planned() -> None:
    text = plan_text(plan(pipeline(ON_SPARK), Facts(engines={"count-words": "embedded"})))

    assert "engine: embedded -> spark" in text
    assert "it begins without state, unless `moldau streams move` carries it" in text


def test_it_is_started_with_its_checkpoint_and_without_processes() -> None:
    (app,) = pipeline(ON_SPARK).apps
    words = app_words(app, "one:9092", "/shared/words", "words.json")

    assert words == [
        *("streams", "run", "words:app", "--bootstrap", "one:9092"),
        *("--engine", "spark", "--checkpoint", "/shared/words", "--command-config", "words.json"),
    ]  # fmt: skip


def test_its_lag_is_that_of_its_group_on_spark() -> None:
    parts = {"app count-words": PartState("app", 7, "RUNNING")}
    groups = {"words-spark": GroupStatus("Empty", 5, 95)}
    now = Snapshot(2.0, parts=parts, groups=groups)
    before = Snapshot(1.0, groups={"words-spark": GroupStatus("Empty", 90, 10)})
    (row,) = (each for each in status_rows(pipeline(ON_SPARK), now, before) if each.kind == "app")

    assert (row.state, row.lag, row.rate, row.missed) == ("RUNNING", 5, 85.0, None)


@pytest.mark.parametrize(
    ("settings", "more", "problem"),
    [
        ("spark.master: spork", "", "14: error: topologies.count-words.settings.spark.master: this is no Spark master: use local[2], local[*], spark://host:7077, k8s://... or yarn, not 'spork'"),  # noqa: E501
        ("spark.master: 'local[2]'", "    workers: 3\n", "15: error: topologies.count-words.workers: Spark has executors: leave it out, and give spark.master"),  # noqa: E501
        ("spark.master: 'spark://one:7077'", "", "14: warning: topologies.count-words.settings.spark.master: the executors must reach the pipeline's data directory, where the checkpoint is: give a shared one as checkpoint.location"),  # noqa: E501
        ("checkpoint.location: 's3://bucket/words'", "", "14: error: topologies.count-words.settings.checkpoint.location: it must be a directory that the driver and all executors reach as a path, not 's3://bucket/words'"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_wrong_place_is_told_with_its_line(settings: str, more: str, problem: str) -> None:
    assert problem_lines(on_spark(settings, more)) == [problem]


def test_settings_of_spark_without_the_engine_are_refused() -> None:
    text = WORDS.replace("app: words:app\n", f"app: words:app\n{MASTER}")

    assert [line.partition(": leave")[0] for line in problem_lines(text)] == [
        "13: error: topologies.count-words.settings.checkpoint.location: it is for apps on Spark",
        "13: error: topologies.count-words.settings.spark.master: it is for apps on Spark",
    ]


APPS = """
from moldau.streams import Streams, tumbling

fine = Streams("fine")
fine.stream("lines", str).group_by_key().count(name="counts").changes().to("counts")

waits = Streams("waits")
windows = waits.stream("lines", str).group_by_key().window(tumbling("1m"), emit="close", idle="5s")
windows.count(name="idle").changes().to("counts")
"""


def test_apps_are_explained_for_their_engine(tmp_path: Path) -> None:
    (tmp_path / "apps.py").write_text(APPS)
    wrong = {"spark.remote": "sc://one", "spark.mastr": "local", "spark.conf.x": "${env:SECRET}"}
    apps = [
        App("fine", 1, "apps:fine", settings=wrong, engine="spark"),
        App("waits", 2, "apps:waits", engine="spark"),
    ]
    fine, waits = explain_apps(apps, {"lines": 2}, str(tmp_path))

    assert isinstance(fine, AppPlan)
    assert isinstance(waits, AppPlan)
    assert fine.problem is None
    assert fine.makes == ()  # no changelogs
    assert sorted(fine.wrong_settings) == ["spark.mastr", "spark.remote"]
    assert "did you mean spark.master?" in fine.wrong_settings["spark.mastr"]
    assert "not Spark Connect" in fine.wrong_settings["spark.remote"]
    assert waits.problem is not None
    assert "idle=... closes windows by the wall clock" in waits.problem
