"""A checkpoint that begins, goes on and ends: what it reads, and what it leaves in the topics.

The stages run on a real broker, without Java: see `tests.streams.spark.batches`.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from subprocess import Popen
from typing import Any

import pytest

from moldau.client import EARLIEST, LATEST, OffsetAndMetadata, TopicPartition, TransactionError
from moldau.client.sync import Admin, Producer
from moldau.config import BadSettings
from moldau.runtime.real_files import RealFiles
from moldau.streams import Streams
from moldau.streams.problems import StreamsError, TopologyError
from moldau.streams.rocks import RocksMemory
from moldau.streams.spark.checkpoint import Checkpoint
from moldau.streams.spark.delivery import transactional_id_of
from moldau.streams.spark.moving import to_embedded, to_spark
from moldau.streams.spark.recorded import begun_text, newest_checkpoint
from moldau.streams.spark.stores import AttemptStores, drop_others
from moldau.streams.spark.versions import Version
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.spark import streams_apps as apps
from tests.streams.spark.batches import Batches

WHOLE = (1_000_000,)


@pytest.fixture
def servers(moldau_broker: SyncEmbeddedBroker) -> str:
    return moldau_broker.bootstrap_servers


@pytest.fixture
def app(servers: str, moldau_topic: str) -> Streams:
    """Words by line, and counts of words behind a repartition topic."""
    found = apps.word_count(moldau_topic)
    apps.make_topics(servers, found)
    return found


@pytest.fixture
def driver(servers: str, app: Streams, tmp_path: Path) -> Iterator[Callable[..., Batches]]:
    """Start a driver of the app with a checkpoint of this name."""
    started: list[Batches] = []

    def start(checkpoint: str, given: Streams = app, **settings: str) -> Batches:
        if started:
            started.pop().close()
        folder = tmp_path / checkpoint
        started.append(Batches(given.plan(), servers, folder, Random(1), WHOLE, **settings))
        return started[0]

    yield start
    for each in started:
        each.close()


def offsets(servers: str, topic: str, edge: int) -> list[int]:
    wanted = dict.fromkeys([TopicPartition(topic, at) for at in range(apps.PARTITIONS)], edge)
    with Admin(bootstrap_servers=servers) as admin:
        found = admin.list_offsets(wanted)
    return [found[where].offset for where in wanted]


def repartition_topic(app: Streams) -> str:
    (found,) = app.plan().repartitions
    return found.name


def counts(servers: str, app: Streams) -> dict[Any, list[Any]]:
    return apps.in_order(apps.outs_of(servers, app), app.name)


def test_a_new_checkpoint_reads_the_sources_again_and_its_own_topics_from_their_ends(
    servers: str, app: Streams, driver: Callable[..., Batches]
) -> None:
    first = driver("one")
    for at in (0, 20):  # the records of the first batch are deleted, and those of the second stay
        apps.write(servers, app.name, at, 20, has_cities=False)
        first.settle()
    expected, topic = counts(servers, app), repartition_topic(app)
    assert offsets(servers, topic, EARLIEST) < offsets(servers, topic, LATEST)

    driver("two").settle()

    found = counts(servers, app)
    assert sum(map(len, expected.values())) == 80
    assert found == {key: [*rows, *rows] for key, rows in expected.items()}


def test_records_of_open_transactions_are_not_of_a_new_checkpoint(
    servers: str, app: Streams, driver: Callable[..., Batches]
) -> None:
    driver("one")
    topic = repartition_topic(app)
    own = transactional_id_of(app.name, 0, 0)
    with (
        Producer(bootstrap_servers=servers, transactional_id=f"{app.name}-worker") as worker,
        Producer(bootstrap_servers=servers, transactional_id=own) as killed,
    ):
        for producer in (worker, killed):
            producer.begin_transaction()
            producer.send(topic, b"k", key=b"word", partition=0)
            producer.flush()
        batches = driver("two")
        with pytest.raises(TransactionError):
            killed.commit_transaction()
        worker.commit_transaction()
    apps.write(servers, app.name, 0, 1, has_cities=False)
    batches.settle()

    assert sum(map(len, counts(servers, app).values())) == 2


@pytest.mark.parametrize("has_own_topics", [True, False])
def test_an_older_checkpoint_is_refused_when_a_newer_one_has_begun(
    servers: str,
    app: Streams,
    driver: Callable[..., Batches],
    tmp_path: Path,
    *,
    has_own_topics: bool,
) -> None:
    """An attempt of a driver that was killed finds the same when it opens its producer late."""
    chosen = app if has_own_topics else _upper(app.name)
    apps.write(servers, app.name, 0, 10, has_cities=False)
    driver("one", chosen).settle()
    driver("two", chosen)
    apps.write(servers, app.name, 10, 10, has_cities=False)
    before = counts(servers, chosen)

    with pytest.raises(StreamsError, match="begun with another checkpoint after this one"):
        driver("one", chosen)
    assert counts(servers, chosen) == before
    driver("three", chosen)
    one = str(tmp_path / "one" / "checkpoint")
    with pytest.raises(StreamsError, match="begun with another checkpoint after this one"):
        to_embedded(chosen.plan(), one, {"bootstrap.servers": servers})


def test_the_checkpoint_that_begins_last_is_the_newest_whatever_clocks_say(
    servers: str, app: Streams, driver: Callable[..., Batches], tmp_path: Path
) -> None:
    group, where = f"{app.name}-spark", TopicPartition(f"{app.name}-lines", 0)
    path, ahead = str(tmp_path / "two" / "checkpoint"), 10**14
    Checkpoint.open(RealFiles(), path, app.plan(), 1).close()  # long before it begins
    driver("one").settle()
    driver("two").settle()
    apps.write(servers, app.name, 0, 10, has_cities=False)
    with pytest.raises(StreamsError, match="begun with another checkpoint after this one"):
        driver("one")

    with Admin(bootstrap_servers=servers) as admin:
        recorded = OffsetAndMetadata(0, metadata=begun_text(str(ahead), 1))
        admin.alter_group_offsets(group, {where: recorded})
        driver("three").settle()
        found = admin.group_offsets(group)
    assert newest_checkpoint([found[where].metadata]) == ahead + 1


def test_the_group_has_the_offset_of_each_task_before_it_reads_anything(
    servers: str, app: Streams, driver: Callable[..., Batches]
) -> None:
    chosen = _upper(app.name)
    group, lines = f"{app.name}-spark", f"{app.name}-lines"
    wanted = [TopicPartition(lines, at) for at in range(apps.PARTITIONS)]
    apps.write(servers, app.name, 0, 10, has_cities=False)
    with Admin(bootstrap_servers=servers) as admin:
        for _ in range(2):
            driver("one", chosen, auto_offset_reset="latest")
            found = admin.group_offsets(group)
            assert [found[where].offset for where in wanted] == offsets(servers, lines, LATEST)
            # As if they had expired.
            assert not any(admin.delete_group_offsets(group, wanted).values())

    apps.write(servers, app.name, 10, 10, has_cities=False)
    driver("one", chosen, auto_offset_reset="latest").settle()
    assert sum(map(len, counts(servers, chosen).values())) == 10


def _upper(name: str) -> Streams:
    app = Streams(name)
    app.stream(f"{name}-lines", str, key=str).map_values(str.upper).to(f"{name}-out")
    return app


def test_all_threads_of_a_driver_know_the_ids_of_the_inputs(
    app: Streams, driver: Callable[..., Batches]
) -> None:
    inputs = driver("one").inputs
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: inputs.ids(), range(8)))

    assert found == [found[0]] * 8
    assert set(found[0]) == {f"{app.name}-lines", repartition_topic(app)}


def test_an_app_that_begins_at_the_latest_records_keeps_what_it_writes_to_its_own_topics(
    servers: str, app: Streams, driver: Callable[..., Batches]
) -> None:
    apps.write(servers, app.name, 0, 10, has_cities=False)
    batches = driver("one", auto_offset_reset="latest")
    apps.write(servers, app.name, 10, 20, has_cities=False)
    batches.settle()

    assert sum(map(len, counts(servers, app).values())) == 40


def test_a_checkpoint_with_a_part_of_a_move_is_refused(
    app: Streams, driver: Callable[..., Batches], tmp_path: Path
) -> None:
    path = str(tmp_path / "one" / "checkpoint")
    with closing(Checkpoint.open(RealFiles(), path, app.plan(), 1)) as kept:
        kept.write_state(0, 0, "a.snapshot", b"")

    with pytest.raises(StreamsError, match="a move to it was cut short: move the app again"):
        driver("one")


def test_repartition_topics_keep_only_what_a_batch_may_read_again(
    servers: str, app: Streams, driver: Callable[..., Batches], caplog: pytest.LogCaptureFixture
) -> None:
    topic = repartition_topic(app)
    batches = driver("one", repartition_purge_interval_ms="0")
    for first in (0, 30):
        apps.write(servers, app.name, first, 30, has_cities=False)
        batches.settle()
        ends = offsets(servers, topic, LATEST)
        assert offsets(servers, topic, EARLIEST) == ends
        assert all(ends)
    assert sum(map(len, counts(servers, app).values())) == 120

    with caplog.at_level(logging.WARNING, "moldau.streams"):
        batches.inputs.purge(app.plan().programs[1], {0: Version(offsets={topic: 1_000_000})})
    assert "old records of repartition topics are not deleted" in caplog.text


def test_a_process_that_has_met_the_app_before_runs_the_functions_of_its_new_driver(
    servers: str, moldau_topic: str, driver: Callable[..., Batches]
) -> None:
    def changed(suffix: str) -> Streams:
        app = Streams(moldau_topic)
        lines = app.stream(f"{moldau_topic}-lines", str, key=str)
        lines.map_values(lambda line: line + suffix).to(f"{moldau_topic}-out")
        return app

    apps.write(servers, moldau_topic, 0, 1, has_cities=False)
    for suffix in ("-old", "-new"):
        driver(f"checkpoint{suffix}", changed(suffix)).settle()

    (values,) = counts(servers, changed("")).values()
    assert [each[0][-4:] for each in values] == [b"-old", b"-new"]


@pytest.fixture
def dead() -> int:
    """The id of a process that has ended."""
    process = Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_stores_of_earlier_drivers_are_removed_unless_one_is_open(
    tmp_path: Path, dead: int
) -> None:
    opened, killed = f"open-{os.getpid()}-a", f"open-{dead}-a"
    for path in ("old/0_0/a", "now/0_0/a", f"runs/0_0/{opened}", "runs/0_1/a", "gone-now-x/0_0/a"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "killed" / "0_0" / killed).mkdir(parents=True)

    drop_others(RealFiles(), str(tmp_path), "now")
    drop_others(RealFiles(), str(tmp_path / "none"), "now")

    assert sorted(each.name for each in tmp_path.iterdir()) == ["now", "runs"]


def test_an_attempt_removes_what_one_that_was_killed_has_left(
    app: Streams, tmp_path: Path, dead: int
) -> None:
    local = tmp_path / "local"
    kept = [f"open-{os.getpid()}-a"]
    for name in (*kept, f"open-{dead}-a", "an-old-version"):
        (local / name).mkdir(parents=True)
    program = next(each for each in app.plan().programs if each.stores)
    stores = AttemptStores(RealFiles(), str(tmp_path / "kept"), str(local), "b")

    stores.open(program, Version(), RocksMemory())
    stores.drop()

    assert [each.name for each in local.iterdir()] == kept


def test_a_move_waits_for_open_transactions_in_changelogs(
    servers: str, moldau_topic: str, app: Streams, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moldau.streams.changelog.reader._CLEANUP_S", 0.0)
    apps.write(servers, app.name, 0, 20, has_cities=False)
    apps.embedded(servers, app, tmp_path / "state")
    given = {"bootstrap.servers": servers, "producer.transaction.timeout.ms": "500"}

    with Producer(bootstrap_servers=servers, transactional_id=f"{app.name}-open") as producer:
        producer.begin_transaction()
        producer.send(f"{app.name}-counts-changelog", b"", key=b"k", partition=1)
        producer.flush()
        with pytest.raises(StreamsError, match="changelog-1 has a transaction that stays open"):
            to_spark(app.plan(), str(tmp_path / "one"), given)
        producer.abort_transaction()

    assert to_spark(app.plan(), str(tmp_path / "two"), given).rows > 0


def test_without_transactions_the_driver_commits_the_offsets_of_the_group(
    servers: str, app: Streams, driver: Callable[..., Batches]
) -> None:
    apps.write(servers, app.name, 0, 20, has_cities=False)
    driver("one", processing_guarantee="at_least_once").settle()

    with Admin(bootstrap_servers=servers) as admin:
        found = admin.group_progress(f"{app.name}-spark")
    assert {each.where.topic for each in found.partitions} == {
        f"{app.name}-lines",
        repartition_topic(app),
    }
    assert [each.lag for each in found.partitions] == [0] * 2 * apps.PARTITIONS


def test_a_copy_of_a_checkpoint_that_lacks_the_last_batch_is_told_in_one_line(
    servers: str, moldau_topic: str, driver: Callable[..., Batches], tmp_path: Path
) -> None:
    app = Streams(moldau_topic, emit="every")
    lines = app.stream(f"{moldau_topic}-lines", str, key=str)
    lines.group_by_key().count(name="counts").changes().to(f"{moldau_topic}-out")
    apps.write(servers, moldau_topic, 0, 10, has_cities=False)
    first = driver("one", app)
    first.settle()
    shutil.copytree(tmp_path / "one" / "checkpoint", tmp_path / "copy" / "checkpoint")
    apps.write(servers, moldau_topic, 10, 10, has_cities=False)
    first.die()

    with pytest.raises(StreamsError, match="this checkpoint is an old copy or incomplete") as told:
        driver("copy", app).settle()
    assert "\n" not in str(told.value)

    driver("one", app).settle()  # the newest one goes on
    assert sum(map(len, counts(servers, app).values())) == 20


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"max.task.idle.ms": "500"}, {"max.task.idle.ms"}),
        ({"group.protocol": "streams"}, {"group.protocol"}),
        (
            {"group.protocol": "streams", "num.standby.replicas": "1"},
            {"group.protocol", "num.standby.replicas"},
        ),
    ],
)
def test_settings_without_effect_on_spark_are_refused_by_name(
    given: dict[str, str], named: set[str], app: Streams, driver: Callable[..., Batches]
) -> None:
    with pytest.raises(BadSettings, match="is not for the engine spark") as refused:
        driver("one", **given)
    assert {each.name for each in refused.value.problems} == named


def test_more_partitions_of_a_source_are_told_with_what_helps(
    servers: str, app: Streams, driver: Callable[..., Batches]
) -> None:
    topic = repartition_topic(app)
    driver("one").settle()
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_partitions(f"{app.name}-lines", 3)

    with pytest.raises(TopologyError, match=f"delete {topic}, and start it with a new") as told:
        driver("one")
    assert "\n" not in str(told.value)

    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topic(topic)
        wait_until(
            lambda: topic not in {each.name for each in admin.list_topics()}, "the topic is there"
        )
    apps.write(servers, app.name, 0, 10, has_cities=False)
    driver("two").settle()
    assert sum(map(len, counts(servers, app).values())) == 20
