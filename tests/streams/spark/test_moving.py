"""An app moves from the embedded engine to Spark and back, and gives what it gives without a move.

The part on Spark runs without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.client import (
    KafkaError,
    OffsetAndMetadata,
    OffsetsNotStored,
    Resource,
    ResourceType,
    TopicPartition,
    TransactionError,
)
from moldau.client.sync import Admin, Consumer, Producer
from moldau.errors.codes import ErrorCode
from moldau.runtime.real_files import RealFiles
from moldau.streams import Stream, Streams, session
from moldau.streams.changelog.writer import abandoning_writer
from moldau.streams.plan.store_versions import StoreVersion, version_key
from moldau.streams.plan.topics import topology_topic
from moldau.streams.problems import StateError, StreamsError
from moldau.streams.running import checked
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.moving import _mark, to_embedded, to_spark
from moldau.streams.worker.committer import is_marked
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps
from tests.streams.spark.batches import Batches
from tests.streams.spark.moves import check_counts, given, on_stages


def all_stores(name: str) -> Streams:
    """An app with each kind of store, in several sub-topologies."""
    app = Streams(name, emit="every")
    lines = app.stream(f"{name}-lines", str, key=str)
    apps._windowed_join(app, lines)
    apps._word_count(lines, f"{name}-words")
    _sessions(lines, f"{name}-sessions")
    versions = app.table(f"{name}-versions", str, key=str, versioned="1h", name="versions")
    lines.join(versions, lambda line, other: f"{line}/{other}").to(f"{name}-with-versions")
    lines.join(lines, lambda one, other: f"{one}+{other}", within="2s", name="pairs").to(
        f"{name}-pairs"
    )
    return app


def _sessions(lines: Stream[str, str], to: str) -> None:
    found = lines.group_by_key().window(session("2s", grace="5s")).count(name="spans").changes()
    found.map(lambda key, count: (key.key, str(count)), key=str, type=str).to(to)


def keep_changelogs(servers: str, *given: Streams) -> None:
    """Keep what the changelogs of windows have: the times of the records are long past."""
    with Admin(bootstrap_servers=servers) as admin:
        for name in {name for app in given for name in app.plan().changelogs()}:
            admin.alter_configs(Resource(ResourceType.TOPIC, name), set_to={"retention.ms": "-1"})


def test_an_app_moves_there_and_back_without_a_gap_or_a_repeat(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, names = moldau_broker.bootstrap_servers, (f"{moldau_topic}-e", f"{moldau_topic}-m")
    staying, moving = (all_stores(name) for name in names)
    for app in (staying, moving):
        apps.make_topics(servers, app)
    first, second = tmp_path / "one", tmp_path / "two"

    def write(at: int) -> None:
        for name in names:
            apps.write(servers, name, at, 60)
        apps.embedded(servers, staying, tmp_path / "staying")

    write(0)
    apps.embedded(servers, moving, tmp_path / "state")
    keep_changelogs(servers, staying, moving)
    to_spark(moving.plan(), str(first / "checkpoint"), given(servers))
    write(60)
    on_stages(servers, moving, first)
    to_embedded(moving.plan(), str(first / "checkpoint"), given(servers))
    write(120)
    apps.embedded(servers, moving, tmp_path / "state")
    moved = to_spark(moving.plan(), str(second / "checkpoint"), given(servers))
    write(180)
    on_stages(servers, moving, second, dies=True)
    to_embedded(moving.plan(), str(second / "checkpoint"), given(servers))
    write(240)
    apps.embedded(servers, moving, tmp_path / "elsewhere")  # all state is from the changelogs

    found, expected = (
        apps.in_order(apps.outs_of(servers, app), app.name) for app in (moving, staying)
    )
    assert moved.rows > 50
    assert sum(map(len, expected.values())) > 1000
    assert found == expected


def test_what_cannot_be_moved_is_told_in_one_line(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, name = moldau_broker.bootstrap_servers, moldau_topic
    app = apps.word_count(name)
    plan, checkpoint = app.plan(), str(tmp_path / "one" / "checkpoint")
    apps.make_topics(servers, app)

    def refused(move: Any, to: str = checkpoint) -> str:
        with pytest.raises(StreamsError) as raised:
            move(plan, to, given(servers))
        assert "\n" not in str(raised.value)
        return str(raised.value)

    assert "has no offsets, so there is nothing to move" in refused(to_spark)
    assert "it has no batch, so there is nothing to move" in refused(to_embedded)

    apps.write(servers, name, 0, 20, has_cities=False)
    apps.embedded(servers, app, tmp_path / "state")
    with Consumer(bootstrap_servers=servers, group_id=name) as member:
        member.subscribe([f"{name}-lines"])
        while not member.assignment:
            member.poll(0.1)
        assert "it still runs, with 1 worker in its group" in refused(to_spark)

    with closing(Checkpoint.open(RealFiles(), checkpoint, plan, 1)):
        assert "another driver runs with it" in refused(to_spark)
    to_spark(plan, checkpoint, given(servers))
    assert "it has moved to Spark already" in refused(to_spark, str(tmp_path / "other"))
    with pytest.raises(StreamsError, match=f"app={name}: it has moved to Spark: run it there"):
        apps.embedded(servers, app, tmp_path / "state")
    apps.write(servers, name, 20, 5, has_cities=False)
    on_stages(servers, app, tmp_path / "one", dies=True)
    assert "it has batches already" in refused(to_spark)  # its tasks have committed one
    on_stages(servers, app, tmp_path / "one")
    assert "it has batches already" in refused(to_spark)
    to_embedded(plan, checkpoint, given(servers))
    assert "has moved to the embedded engine" in refused(to_embedded)
    to_spark(plan, str(tmp_path / "two"), given(servers))
    plan = apps.windowed_join(name).plan()
    assert "had other inputs or stores" in refused(to_embedded, str(tmp_path / "two"))


@pytest.mark.parametrize("at", [StoreVersion(2), StoreVersion(1, 2, b"k", "key-value")])
def test_rows_of_later_versions_do_not_move_to_spark(
    moldau_broker: SyncEmbeddedBroker, counted: Streams, tmp_path: Path, at: StoreVersion
) -> None:
    servers, plan = moldau_broker.bootstrap_servers, counted.plan()
    apps.embedded(servers, counted, tmp_path / "state")
    store = next(store for program in plan.programs for store in program.stores)
    with Producer(bootstrap_servers=servers) as producer:
        producer.send(
            topology_topic(plan.app), at.encoded(), key=version_key(store.name, 0), partition=0
        )
    with pytest.raises(StateError, match=f"store={store.name}: its rows have version 2"):
        to_spark(plan, str(tmp_path / "checkpoint"), given(servers))


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_driver_that_still_runs_cannot_write_after_a_move(
    moldau_broker: SyncEmbeddedBroker, counted: Streams, tmp_path: Path, guarantee: str
) -> None:
    servers, plan = moldau_broker.bootstrap_servers, counted.plan()
    settings = {"processing.guarantee": guarantee}
    with closing(
        Batches(plan, servers, tmp_path, Random(1), processing_guarantee=guarantee)
    ) as running:
        running.settle()
        running.lose_lock()
        to_embedded(plan, str(tmp_path / "checkpoint"), given(servers, **settings))
        before = apps.in_order(apps.outs_of(servers, counted), counted.name)
        apps.write(servers, counted.name, 20, 20, has_cities=False)

        with pytest.raises(StreamsError, match="has moved to the embedded engine"):
            running.settle()
    assert apps.in_order(apps.outs_of(servers, counted), counted.name) == before


def test_a_driver_that_comes_back_with_a_copy_of_the_checkpoint_cannot_write_after_a_move(
    moldau_broker: SyncEmbeddedBroker, counted: Streams, tmp_path: Path
) -> None:
    servers = moldau_broker.bootstrap_servers
    on_stages(servers, counted, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    to_embedded(counted.plan(), str(tmp_path / "one" / "checkpoint"), given(servers))
    apps.write(servers, counted.name, 20, 20, has_cities=False)

    with pytest.raises(StreamsError, match="has moved to the embedded engine"):
        on_stages(servers, counted, tmp_path / "copy")

    apps.embedded(servers, counted, tmp_path / "state")
    check_counts(servers, counted, 40)


def test_an_input_that_was_never_read_begins_on_spark_where_the_embedded_engine_would(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, name = moldau_broker.bootstrap_servers, moldau_topic
    app = Streams(name)
    app.stream(f"{name}-lines", str, key=str).to(f"{name}-out")
    apps.make_topics(servers, app)
    lines = [TopicPartition(f"{name}-lines", at) for at in range(apps.PARTITIONS)]

    def write(value: bytes) -> None:
        with Producer(bootstrap_servers=servers) as producer:
            for where in lines:
                producer.send(where.topic, value, key=b"k", partition=where.partition)

    write(b"old")
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_group_offsets(name, {lines[0]: 0})  # and none of the other partition
        latest = {"auto.offset.reset": "latest"}
        to_spark(app.plan(), str(tmp_path / "checkpoint"), given(servers, **latest))
        found = admin.group_offsets(f"{name}-spark")
        left = admin.group_offsets(name)
    assert [found[where].offset for where in lines] == [0, 1]
    assert all(is_marked(left[where].metadata) for where in lines), "a worker may get one alone"

    write(b"new")
    on_stages(servers, app, tmp_path)
    values = sorted(each.value or b"" for each in apps.outs_of(servers, app))
    assert values == [b"new", b"new", b"old"]


def test_a_move_aborts_what_the_one_before_has_left_open_in_the_changelogs(
    moldau_broker: SyncEmbeddedBroker,
    counted: Streams,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moldau.streams.changelog.reader._CLEANUP_S", 0.0)
    servers, checkpoint = moldau_broker.bootstrap_servers, str(tmp_path / "checkpoint")
    short = given(servers, **{"producer.transaction.timeout.ms": "5000"})
    apps.embedded(servers, counted, tmp_path / "state")
    to_spark(counted.plan(), checkpoint, given(servers))
    on_stages(servers, counted, tmp_path)

    own = f"{counted.name}-move"
    with Producer(bootstrap_servers=servers, transactional_id=own) as killed:
        killed.begin_transaction()
        killed.send(f"{counted.name}-counts-changelog", b"", key=b"k", partition=0)
        killed.flush()
        assert to_embedded(counted.plan(), checkpoint, short).rows > 0
        with pytest.raises(TransactionError):
            killed.commit_transaction()


def test_a_move_may_write_for_as_long_as_a_batch() -> None:
    settings = checked(given("localhost:9092"))

    assert (
        abandoning_writer("app", settings).configuration.settings["transaction.timeout.ms"]
        == "900000"
    )


def test_a_mark_is_stored_without_the_text_where_brokers_refuse_a_longer_one() -> None:
    long, short = TopicPartition("t", 0), TopicPartition("t", 1)
    stored: dict[TopicPartition, OffsetAndMetadata] = {}

    def alter(group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        fits = {where: each for where, each in offsets.items() if len(each.metadata) <= 20}
        stored.update(fits)
        if len(fits) < len(offsets):
            results = {where: None if where in fits else KafkaError(code) for where in offsets}
            raise OffsetsNotStored(code, results=results)

    admin: Any = SimpleNamespace(alter_group_offsets=alter)
    committed = {long: OffsetAndMetadata(7, "the times of streams"), short: OffsetAndMetadata(8)}
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    _mark(admin, "app", committed, {long: 7, short: 8})
    assert [(each.offset, is_marked(each.metadata)) for each in stored.values()] == [
        (8, True),
        (7, True),
    ]
    stored.clear()
    code = ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(OffsetsNotStored):
        _mark(admin, "app", committed, {long: 7})
