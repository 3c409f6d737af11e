"""`checkpoint.cleanup`: checkpoints go with a deleted connector, and no row is lost by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moldau.connect.api import ConnectError, RetriableError
from moldau.connectors.spark.base_connector import SparkConnector
from moldau.connectors.spark.checkpoint.folder import CheckpointFolder, Session
from moldau.connectors.spark.checkpoint.sink_directory import SinkDirectory
from moldau.connectors.spark.connector import SparkSinkConnector
from moldau.connectors.spark.source_connector import SparkSourceConnector
from moldau.errors import ConfigError
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.connectors.spark.connector_worker import worker_of
from tests.connectors.spark.file_stream import FILES
from tests.connectors.spark.orders_lake import ORDERS_LAKE
from tests.connectors.spark.runners import ids_in, need_spark, orders, orders_lake
from tests.spark.topics import make_topic, send

PATIENCE_S = 120.0


def a_checkpoint(folder: Path, *, batches: int = 1) -> None:
    for log in ("offsets", "commits"):
        (folder / "gen-0" / "rows" / log).mkdir(parents=True)
        for number in range(batches):
            (folder / "gen-0" / "rows" / log / str(number)).write_text("v1\n{}\n-")
            (folder / "gen-0" / "rows" / log / f".{number}.crc").touch()
    (folder / "lock").touch()


def lake(folder: Path, **more: str) -> dict[str, str]:
    places = {"checkpoint.location": str(folder / "points"), "sink.path": str(folder / "lake")}
    return {**ORDERS_LAKE, "name": "lake", **places, "checkpoint.cleanup": "true", **more}


@pytest.mark.parametrize(
    "location",
    [
        "{}/points",
        "file://{}/points",
        pytest.param("local://{}/points", marks=pytest.mark.real),  # its lock takes seconds
    ],
)
def test_checkpoints_go_with_a_deleted_connector_and_those_of_others_stay(
    tmp_path: Path, location: str
) -> None:
    if location.startswith("local"):
        pytest.importorskip("fsspec")
    points = tmp_path / "points"
    for name in ("lake", "lake2"):
        a_checkpoint(points / name)
    props = lake(tmp_path, **{"checkpoint.location": location.format(tmp_path)})

    SparkSinkConnector().removed({**props, "checkpoint.cleanup": "false"})
    assert (points / "lake" / "gen-0").is_dir()

    SparkSinkConnector().removed(props)
    SparkSinkConnector().removed(props)
    assert [each for each in (points / "lake").rglob("*") if each.is_file()] == []
    assert len(list((points / "lake2").rglob("0"))) == 2
    if not location.startswith("local"):
        assert [each.name for each in points.iterdir()] == ["lake2"]


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("lake", "points/lake/_spark_metadata/0"),
        ("lake", "points/lake/part-0.parquet"),
        ("lake", "points/lake/b/gen-0/rows/offsets/0"),
        ("lake", "points/lake/topics/orders/part-0.parquet"),
        (".", "points/lake2/lock"),
        ("..", "lake/part-0.parquet"),
    ],
)
@pytest.mark.parametrize("scheme", ["", pytest.param("local://", marks=pytest.mark.real)])
def test_what_is_no_checkpoint_never_goes(
    tmp_path: Path, scheme: str, name: str, other: str
) -> None:
    """sink.path or source.path may be the connector's folder, and a name may lead elsewhere."""
    if scheme:
        pytest.importorskip("fsspec")
    a_checkpoint(tmp_path / "points" / "lake")
    place = tmp_path / other
    place.parent.mkdir(parents=True, exist_ok=True)
    place.touch()
    before = sorted(tmp_path.rglob("*"))
    props = {**lake(tmp_path), "name": name, "checkpoint.location": f"{scheme}{tmp_path}/points"}

    with pytest.raises(ConnectError, match="something else in it"):
        SparkSinkConnector().removed(props)

    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("topic", [None, "orders"])
def test_nothing_goes_while_a_query_works_on_it(tmp_path: Path, topic: str | None) -> None:
    props = lake(tmp_path)
    if topic is not None:
        split = {"spark.task.per.topic": "true", "sink.path": str(tmp_path / "${topic}")}
        props |= split
    folder = CheckpointFolder(str(tmp_path / "points"), "lake", topic)
    folder.acquire_for_query()
    with pytest.raises(RetriableError, match="another query works on this checkpoint"):
        SparkSinkConnector().removed(props)
    assert (tmp_path / "points" / "lake").is_dir()

    folder.lock.release()
    SparkSinkConnector().removed(props)
    assert list((tmp_path / "points").iterdir()) == []


def test_a_removal_that_was_cut_short_left_nothing_to_a_query(tmp_path: Path) -> None:
    a_checkpoint(tmp_path / "points" / ".lake.removed")
    a_checkpoint(tmp_path / "points" / "lake")

    SparkSinkConnector().removed(lake(tmp_path))

    assert list((tmp_path / "points").iterdir()) == []


@pytest.mark.parametrize("kind", [SparkSinkConnector, SparkSourceConnector])
def test_a_connector_that_never_ran_has_nothing_to_remove(
    tmp_path: Path, kind: type[SparkConnector]
) -> None:
    props = lake(tmp_path) if kind is SparkSinkConnector else {**FILES, "name": "in"}
    kind().removed(props)
    assert not (tmp_path / "points").exists()


def test_directories_are_free_for_others_and_their_batches_are_not_taken_for_own_ones(
    tmp_path: Path,
) -> None:
    """Spark leaves a batch out if its log of the directory has the number: a query that comes from
    elsewhere with lower numbers would lose rows there."""
    split = {"spark.task.per.topic": "true", "sink.path": str(tmp_path / "${topic}")}
    points, path = tmp_path / "points", tmp_path / "orders"
    a_checkpoint(points / "lake" / "topics" / "orders")
    first = CheckpointFolder(str(points), "lake", "orders").generations
    SinkDirectory(str(path), "lake").claim(first)
    other = SinkDirectory(str(path), "other")
    generations = CheckpointFolder(str(points), "other").generations
    with pytest.raises(ConfigError, match="another connector writes"):
        other.claim(generations)

    SparkSinkConnector().removed(lake(tmp_path, **split))
    other.claim(generations)
    other.release()

    (path / "_spark_metadata").mkdir()
    (path / "_spark_metadata" / "4").touch()
    other.claim(generations)  # fresh: prepare_file_sink decides by the numbers
    other.release()
    a_checkpoint(points / "other", batches=4)
    with pytest.raises(ConfigError, match="batches of another query"):
        other.claim(generations)
    with pytest.raises(ConfigError, match="batches of another query"):
        other.claim(generations)
    with pytest.raises(ConfigError, match="batches of another query"):
        other.claim(CheckpointFolder("s3://bucket/points", "other").generations)
    (points / "other" / "gen-0" / "rows" / "commits" / "4").touch()
    other.claim(generations)


def test_a_session_is_open_until_it_is_closed(tmp_path: Path) -> None:
    folder = CheckpointFolder(str(tmp_path), "lake")
    assert folder.session_note.read() == Session(0, is_open=False)
    folder.acquire_for_query()
    for session in (
        Session(3, is_open=True),
        Session(3, is_open=False),
        Session(4, is_open=True, server="shared-local"),
        Session(4, is_open=False, server="spark:15002"),
    ):
        folder.session_note.write(session)
        assert folder.session_note.read() == session
    folder.lock.release()


@pytest.mark.real
def test_a_deleted_sink_is_created_again_and_refused_until_its_offsets_are_reset(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    need_spark()
    name, path = moldau_topic, tmp_path / "orders"
    make_topic(moldau_broker, name, 1)
    send(moldau_broker, name, orders(20))
    config = orders_lake(name, tmp_path, trigger="processing 1 second")
    config |= {"checkpoint.cleanup": "true", "errors.restart.max": "0"}
    points, note = tmp_path / "checkpoints", path / f"_moldau_connector-{name}"

    def rows() -> list[int]:
        return ids_in(path) if (path / "_spark_metadata").is_dir() else []

    with worker_of(moldau_broker, name, config, tmp_path) as worker:
        wait_until(lambda: rows() == list(range(20)), "the rows", PATIENCE_S)
        changed = {**config, "max.offsets.per.trigger": "1000"}
        assert worker.ask("PUT", f"/connectors/{name}/config", changed)[0] == 200
        send(moldau_broker, name, orders(5, 20))
        wait_until(lambda: rows() == list(range(25)), "it goes on with a new config", PATIENCE_S)
    assert (points / name).is_dir(), "a worker that stops removes nothing"

    with worker_of(moldau_broker, name, config, tmp_path) as worker:
        send(moldau_broker, name, orders(5, 25))
        wait_until(lambda: rows() == list(range(30)), "it goes on after that", PATIENCE_S)
        assert note.exists()
        assert worker.ask("DELETE", f"/connectors/{name}")[0] == 204
        wait_until(lambda: list(points.iterdir()) == [] and not note.exists(), "nothing is left")
        assert rows() == list(range(30))

        worker.create(name, config)
        wait_until(lambda: worker.states(name)[1:] == ["FAILED"], "it is refused", PATIENCE_S)
        _, body = worker.ask("GET", f"/connectors/{name}/status")
        line = body["tasks"][0]["trace"].splitlines()[0]
        assert "batches that the checkpoint does not know" in line
        assert "reset the offsets of the stopped connector" in line
        assert worker.ask("PUT", f"/connectors/{name}/stop")[0] == 204
        status, body = worker.ask("DELETE", f"/connectors/{name}/offsets")
        assert status == 200, body
        assert worker.ask("PUT", f"/connectors/{name}/resume")[0] == 202
        twice = sorted([*range(30), *range(30)])
        wait_until(lambda: rows() == twice, "all is written again", PATIENCE_S)
    assert json.loads((points / name / "generation.json").read_text())["generation"] == 1
