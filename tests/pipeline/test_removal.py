"""`moldau pipeline down --delete` deletes what `run` has made, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from moldau.client.sync import Admin, Consumer, NewTopic
from moldau.pipeline.cluster import Cluster, ExistingNames, lag_of
from moldau.pipeline.commandlines import worker_settings
from moldau.pipeline.data_directory import OWN_BROKER, DataDirectory, PipelineFailed, RunState
from moldau.pipeline.pipeline import Pipeline
from moldau.pipeline.plan import Facts, plan
from moldau.pipeline.removal import check_target, delete_resources, made_resources
from moldau.pipeline.running import record_new, record_worker
from moldau.runtime.real_files import RealFiles
from moldau.testing import SyncEmbeddedBroker
from tests.pipeline.files import pipeline, read
from tests.pipeline.running import wait_until

URL = "http://connect-1:8083"
LAST = RunState(
    bootstrap="kafka-1:9092",
    rest=URL,
    is_own_broker=False,
    is_own_worker=False,
    cluster="first",
    topics=["lines"],
    connectors=["read-lines"],
    groups=["words"],
)
LAKE = """\
pipeline: lake
topics: {orders: {external: true}}
sinks:
  lake:
    connector.class: SparkSinkConnector
    topics: orders
    sink.format: parquet
    sink.path: lake
    checkpoint.location: checkpoints
"""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with SyncEmbeddedBroker() as broker:
        yield broker.bootstrap_servers


def made(state: RunState) -> tuple[list[str], list[str], list[str]]:
    return state.topics, state.connectors, state.groups


def test_what_was_made_on_another_cluster_is_not_carried_over() -> None:
    own = replace(LAST, cluster=OWN_BROKER, is_own_broker=True, is_own_worker=True)

    assert made(LAST.at_start("first", URL)) == (["lines"], ["read-lines"], ["words"])
    assert made(LAST.at_start("second", URL)) == ([], [], [])
    assert made(LAST.at_start(OWN_BROKER, None)) == ([], [], [])
    assert made(own.at_start("first", None)) == ([], [], [])
    assert made(own.at_start(OWN_BROKER, None)) == (["lines"], ["read-lines"], ["words"])


def test_connectors_of_another_worker_are_not_carried_over() -> None:
    for connect in (None, "http://connect-2:8083"):
        assert made(LAST.at_start("first", connect)) == (["lines"], [], ["words"])


def test_what_existed_before_is_not_recorded() -> None:
    found = pipeline()
    there = Facts(connectors={"read-lines": found.sources[0].config})
    existing = ExistingNames(frozenset({"words-changelog"}), frozenset({"words"}))
    state = RunState(is_own_broker=False)

    record_new(state, found, plan(found, there), existing)

    assert made(state) == ([], ["write-counts"], ["connect-write-counts"])


def test_the_own_broker_has_only_what_the_pipeline_made() -> None:
    found = pipeline()
    there = Facts(connectors={each.name: each.config for each in found.connectors})
    existing = ExistingNames(frozenset({"words-changelog"}), frozenset({"words"}))
    state = RunState()

    record_new(state, found, plan(found, there), existing)

    assert state.connectors == ["write-counts", "read-lines"]
    assert "words-changelog" in state.topics


def test_the_group_and_topics_of_the_own_worker_are_recorded_under_their_names() -> None:
    settings = {**worker_settings(pipeline(), {}, is_trial=False), "config.storage.topic": "shared"}
    state = RunState(is_own_broker=False)

    record_worker(state, settings, ExistingNames(frozenset({"shared"}), frozenset()))

    assert state.groups == ["words-connect"]
    assert state.topics == ["words-connect-offsets", "words-connect-status"]


def test_another_worker_or_broker_than_that_of_the_last_run_is_refused(bootstrap: str) -> None:
    own = RunState(cluster=OWN_BROKER)
    check_target(own, {}, None)
    check_target(RunState(is_own_broker=False), {"bootstrap.servers": "nowhere:1"}, URL)
    with pytest.raises(PipelineFailed, match="its own broker, so nothing was deleted"):
        check_target(own, {"bootstrap.servers": bootstrap}, None)
    with pytest.raises(PipelineFailed, match=f"the last run used {URL}"):
        check_target(LAST, {}, "http://connect-2:8083")
    with pytest.raises(PipelineFailed, match="the last run used its own worker"):
        check_target(replace(LAST, is_own_worker=True), {}, URL)


def test_another_cluster_than_that_of_the_last_run_is_refused(bootstrap: str) -> None:
    with Cluster({"bootstrap.servers": bootstrap}) as cluster:
        here = replace(LAST, cluster=cluster.id(), bootstrap=bootstrap)

    check_target(here, {}, "connect-1:8083/")
    with pytest.raises(PipelineFailed, match="the last run used first at kafka-1:9092, so nothing"):
        check_target(LAST, {"bootstrap.servers": bootstrap}, None)


def data_of(state: RunState, path: Path) -> DataDirectory:
    data = DataDirectory(RealFiles(), str(path / ".moldau"))
    data.prepare()
    data.save(state)
    return data


def deleted(found: Pipeline, state: RunState, path: Path) -> tuple[list[str], list[str]]:
    """The lines of `down --delete`, and its problems."""
    said: list[str] = []
    problems = delete_resources(found, data_of(state, path), {}, str(path), said.append)
    return said, problems


def checkpoint(path: Path) -> Path:
    folder = path / "checkpoints" / "lake"
    (folder / "gen-1").mkdir(parents=True)
    return folder


def test_a_connector_of_the_own_worker_removes_its_checkpoint(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)
    found = read(LAKE + "    checkpoint.cleanup: true\n").pipeline

    said, problems = deleted(found, RunState(connectors=["lake"]), tmp_path)

    assert not folder.exists()
    assert said == [f"removed {tmp_path}/.moldau"]
    assert problems == []


def test_a_checkpoint_that_cannot_be_removed_is_one_line(tmp_path: Path) -> None:
    (checkpoint(tmp_path) / "mine.txt").touch()
    found = read(LAKE + "    checkpoint.cleanup: true\n").pipeline

    _, (problem,) = deleted(found, RunState(connectors=["lake"]), tmp_path)

    assert problem.startswith("connector lake: checkpoint.cleanup: the checkpoints stay")
    assert "\n" not in problem
    assert (tmp_path / ".moldau").exists()


def test_a_checkpoint_that_stays_is_named(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path)

    said, _ = deleted(read(LAKE).pipeline, RunState(connectors=["lake"]), tmp_path)

    assert folder.exists()
    assert said[0] == (
        "the checkpoint of lake stays in checkpoints: delete it before the next run, which makes "
        "the topics again, or set checkpoint.cleanup: true"
    )


def test_no_checkpoint_is_named_that_is_not_there_or_not_ours(tmp_path: Path) -> None:
    assert len(deleted(read(LAKE).pipeline, RunState(connectors=["lake"]), tmp_path)[0]) == 1
    checkpoint(tmp_path)
    assert len(deleted(read(LAKE).pipeline, RunState(), tmp_path)[0]) == 1


def test_a_group_whose_members_do_not_leave_is_a_problem(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.pipeline.cluster.GROUP_EMPTY_S", 0.5)
    with (
        Admin(bootstrap_servers=bootstrap) as admin,
        Cluster({"bootstrap.servers": bootstrap}) as cluster,
    ):
        admin.create_topic(NewTopic("busy", 1))
        with Consumer(bootstrap_servers=bootstrap, group_id="busy") as consumer:
            consumer.subscribe("busy")

            def is_member() -> bool:
                consumer.poll(0.2)
                return bool(consumer.assignment)

            wait_until(is_member, "a member of the group")
            (problem,) = cluster.delete([], ["busy", "no-such-group"])

    assert problem.startswith("group busy: ")


def test_the_question_names_what_was_made() -> None:
    assert made_resources(LAST, "/d")[1:] == [
        "connectors: read-lines",
        "topics: lines",
        "groups: words",
    ]


def test_the_lag_of_a_topic_that_was_made_again_is_0() -> None:
    assert [lag_of(2_000, 0), lag_of(3, 5), lag_of(0, None)] == [0, 2, 0]
