"""`moldau pipeline plan`: from the facts of a cluster to steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from moldau.cli import main
from moldau.connect.config.kinds import HIDDEN
from moldau.operations.plan import Action, Change, PlanStep
from moldau.operations.topics import FoundTopic
from moldau.pipeline.data_directory import OWN_BROKER, DataDirectory
from moldau.pipeline.last_run import LastRun
from moldau.pipeline.pipeline import Pipeline, selected
from moldau.pipeline.plan import (
    Facts,
    plan,
    plan_text,
    topology_of,
)
from moldau.runtime.real_files import RealFiles
from tests.pipeline.files import JOB, WORDS, pipeline, read


def steps(facts: Facts, text: str = WORDS) -> dict[str, PlanStep]:
    return {each.name: each for each in plan(read(text).pipeline, facts).steps}


def facts(partitions: int = 2, **config: str) -> Facts:
    """As after a run."""
    found = pipeline()
    return Facts(
        {
            "lines": FoundTopic(partitions, 1),
            "counts": FoundTopic(2, 1, {"cleanup.policy": "compact"}),
        },
        {each.name: {**each.config, **config} for each in found.connectors},
    )


def test_everything_is_made_where_nothing_is() -> None:
    found = plan(pipeline(), Facts())

    assert [(each.action, each.kind, each.name) for each in found.steps] == [
        (Action.CREATE, "topic", "lines"),
        (Action.CREATE, "topic", "counts"),
        (Action.CREATE, "sink", "write-counts"),
        (Action.START, "app", "count-words"),
        (Action.CREATE, "source", "read-lines"),
    ]
    assert found.steps[1].changes == (
        Change("partitions", None, "2"),
        Change("cleanup.policy", None, "compact"),
    )


def test_nothing_changes_where_everything_is() -> None:
    actions = {name: each.action for name, each in steps(facts()).items()}

    assert actions.pop("count-words") is Action.START
    assert set(actions.values()) == {Action.KEEP}


def test_more_partitions_and_other_settings_change_a_topic() -> None:
    text = WORDS.replace("compact}", "delete, retention.ms: 1}").replace(
        "lines: {partitions: 2", "lines: {partitions: 4"
    )

    found = steps(facts(), text)

    assert found["lines"].changes == (Change("partitions", "2", "4"),)
    assert found["counts"].changes == (
        Change("cleanup.policy", "compact", "delete"),
        Change("retention.ms", None, "1"),
    )


def test_fewer_partitions_are_refused() -> None:
    step = steps(facts(partitions=3))["lines"]

    assert step.action is Action.REFUSE
    assert step.note.endswith(
        "a topic cannot lose any: write partitions: 3, or delete and create it"
    )


def test_an_external_topic_must_exist_and_stays() -> None:
    text = WORDS.replace("lines: {partitions: 2}", "lines: {external: true}")

    assert steps(Facts(), text)["lines"].action is Action.REFUSE
    assert steps(facts(partitions=9), text)["lines"].action is Action.KEEP


def test_the_own_broker_gets_an_external_topic_to_try_the_pipeline() -> None:
    text = WORDS.replace("lines: {partitions: 2}", "lines: {external: true}")

    step = steps(Facts(is_own_broker=True), text)["lines"]

    assert step.action is Action.CREATE
    assert step.note == "external: made here only to try the pipeline"
    assert steps(replace(facts(), is_own_broker=True), text)["lines"].action is Action.KEEP


def test_a_connector_that_is_no_longer_in_the_file_is_removed() -> None:
    made = frozenset({"old", "read-lines"})

    found = plan(pipeline(), replace(facts(), made=made))

    assert [each.name for each in found.steps if each.action is Action.REMOVE] == ["old"]
    assert "- remove connector old  (no longer in the file)" in plan_text(found)
    assert plan_text(found).endswith("4 to keep, 1 to remove, 1 to start\n")


def test_a_changed_key_changes_a_connector_and_a_hidden_one_does_not() -> None:
    found = steps(facts(file="other.txt", extra="1"))["read-lines"]

    assert found.action is Action.UPDATE
    assert found.changes == (Change("file", "other.txt", "input.txt"), Change("extra", "1", None))
    assert steps(facts(file=HIDDEN))["read-lines"].action is Action.KEEP


def test_an_app_that_runs_elsewhere_is_told() -> None:
    elsewhere = replace(facts(), running=frozenset({"words"}))

    assert "its group has members already" in steps(elsewhere)["count-words"].note


def test_a_plan_for_an_own_broker_that_does_not_run_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = WORDS[: WORDS.index("topologies:")] + WORDS[WORDS.index("sinks:") :]
    file = tmp_path / "pipeline.yaml"
    file.write_text(text.replace("topics: counts", "topics: lines"))

    assert main(["pipeline", "plan", str(file)]) == 0
    assert "does not run" not in capsys.readouterr().err
    (tmp_path / ".moldau" / "words" / "broker").mkdir(parents=True)
    assert main(["pipeline", "plan", str(file)]) == 0

    assert "this is the plan of a new one" in capsys.readouterr().err


def test_a_plan_of_a_stopped_pipeline_compares_with_its_last_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = WORDS[: WORDS.index("topologies:")] + WORDS[WORDS.index("sinks:") :]
    text = text.replace("topics: counts", "topics: lines")
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    data = DataDirectory(RealFiles(), str(tmp_path / ".moldau" / "words"))
    data.prepare()
    found = read(text).pipeline
    configs = {each.name: each.config for each in found.connectors}
    LastRun.of(OWN_BROKER, found, replace(facts(), connectors=configs)).save(data)

    assert main(["pipeline", "plan", str(file)]) == 0
    told = capsys.readouterr()
    assert told.out.endswith("4 to keep\n")
    assert "compares with the last run" in told.err
    file.write_text(text.replace("file: counts.jsonl", "file: other.jsonl"))
    assert main(["pipeline", "plan", str(file)]) == 0
    assert "file: counts.jsonl -> other.jsonl" in capsys.readouterr().out


def test_a_run_of_some_parts_keeps_what_is_known_of_the_others() -> None:
    whole = pipeline()
    configs = {each.name: each.config for each in whole.connectors}
    before = LastRun.of("id", whole, replace(facts(), connectors=configs))
    first = whole.connectors[0].name
    some = selected(whole, [first])
    now = LastRun.of("id", some, replace(facts(), topics={}, connectors={first: {"new": "1"}}))

    kept = now.with_parts_left_out(before, some.left_out)

    assert kept.connectors == {**configs, first: {"new": "1"}}
    assert (kept.topics, kept.topologies) == (before.topics, before.topologies)
    assert now.with_parts_left_out(replace(before, cluster="other"), some.left_out) == now
    assert now.with_parts_left_out(before, whole.left_out) == now, "a run of all parts says all"


def test_a_changed_topology_is_told() -> None:
    found = pipeline()
    (app,) = found.apps
    assert app.plan is not None
    before = {**topology_of(app.plan), "out": "filter after in", "gone": "map after in"}

    (step,) = [
        each
        for each in plan(found, replace(facts(), topologies={app.name: before})).steps
        if each.action is Action.START
    ]
    same = replace(facts(), topologies={app.name: topology_of(app.plan)})

    assert step.note.endswith("; its topology is not that of the last run")
    assert step.changes == (
        Change("step out", "filter after in", "sink after in"),
        Change("step gone", "map after in", None),
    )
    assert steps(same)[app.name].changes == ()


def test_a_changed_body_of_a_function_is_told() -> None:
    found = pipeline()
    (app,) = found.apps
    assert app.plan is not None
    ((first, second),) = app.plan.programs
    now = replace(app.plan, programs=((first, replace(second, code="2b")),))
    found = replace(found, apps=(replace(app, plan=now),))

    def step(**codes: str) -> PlanStep:
        before = replace(facts(), topologies={app.name: topology_of(now)}, codes={app.name: codes})
        return next(each for each in plan(found, before).steps if each.kind == "app")

    assert step(out="1a").changes == (Change("functions of out", "1a", "2b"),)
    assert "its functions are not those of the last run" in step(out="1a").note
    assert step(out="2b").changes == ()
    assert step().changes == (), "a run of an older version has none"


def test_a_changed_script_or_pause_of_a_job_is_told() -> None:
    def job(text: str, script: str) -> Pipeline:
        return read(text, files={"/srv/p/upper.py": script}).pipeline

    before = LastRun.of("id", job(JOB, "print(1)"), Facts())
    text = JOB.replace("    group: upper\n", "    group: upper\n    every: 30\n")

    def changes(now: Pipeline) -> list[str]:
        steps = plan(now, Facts(jobs=before.jobs)).steps
        return [change.what for step in steps if step.kind == "job" for change in step.changes]

    assert changes(job(JOB, "print(1)")) == []
    assert changes(job(JOB, "print(2)")) == ["script"]
    assert changes(job(text, "print(1)")) == ["every"]


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        (Facts(), ["+ create topic  lines", "      partitions = 2", "4 to create, 1 to start"]),
        (
            facts(file="x"),
            ["      file: x -> input.txt", "2 to update, 2 to keep, 1 to start"],
        ),
    ],
)
def test_it_is_told_as_text(facts: Facts, lines: list[str]) -> None:
    text = plan_text(plan(pipeline(), facts)).splitlines()

    assert [line for line in lines if line not in text] == []


def test_it_is_told_as_json() -> None:
    found = plan(pipeline(), Facts()).to_json()

    assert found["counts"] == {
        "create": 4,
        "update": 0,
        "keep": 0,
        "start": 1,
        "remove": 0,
        "refuse": 0,
    }
    assert found["steps"][0] == {
        "action": "create",
        "kind": "topic",
        "name": "lines",
        "changes": [{"what": "partitions", "before": None, "after": "2"}],
        "note": "",
    }
