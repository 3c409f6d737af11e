"""Streams apps on Spark give what the embedded engine gives, record by record."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from moldau.streams import Streams
from moldau.streams.problems import StreamsError, TopologyError
from moldau.testing import SyncEmbeddedBroker
from tests.spark import streams_apps as apps

pytestmark = pytest.mark.real


@pytest.mark.parametrize("make", [apps.word_count, apps.windowed_join, apps.with_cities])
def test_an_app_gives_what_the_embedded_engine_gives(
    spark: Any,
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    make: Callable[[str], Streams],
) -> None:
    servers = moldau_broker.bootstrap_servers
    names = f"{moldau_topic}-e", f"{moldau_topic}-s"
    one, other = (make(name) for name in names)
    for name, app in zip(names, (one, other), strict=True):
        apps.make_topics(servers, app)
        apps.write(servers, name, 0, 200, has_cities=make is not apps.word_count)

    expected = apps.in_order(apps.embedded(servers, one, tmp_path / "state"), names[0])
    with other.on_spark(
        spark, checkpoint=str(tmp_path / "checkpoint"), bootstrap=servers
    ) as running:
        running.process_available()
    found = apps.in_order(apps.outs_of(servers, other), names[1])

    assert len(found) > 7
    assert found == expected


def test_made_records_and_functions_of_other_modules_run_in_executors(
    spark: Any,
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "adders_of_lines.py").write_text("def add(total, line): return total + line.words")
    monkeypatch.syspath_prepend(str(tmp_path))
    add = import_module("adders_of_lines").add
    servers = moldau_broker.bootstrap_servers
    names = f"{moldau_topic}-e", f"{moldau_topic}-s"
    one, other = (apps.made_records(name, add) for name in names)
    for name, app in zip(names, (one, other), strict=True):
        apps.make_topics(servers, app)
        apps.write(servers, name, 0, 100, has_cities=False)

    expected = apps.in_order(apps.embedded(servers, one, tmp_path / "state"), names[0])
    with other.on_spark(
        spark, checkpoint=str(tmp_path / "checkpoint"), bootstrap=servers
    ) as running:
        running.process_available()

    assert apps.in_order(apps.outs_of(servers, other), names[1]) == expected
    assert {topic for topic, _, _ in expected} == {"-chosen", "-sums", "-added"}


def test_an_app_goes_on_from_its_checkpoint(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, name = moldau_broker.bootstrap_servers, moldau_topic
    app = apps.word_count(name)
    apps.make_topics(servers, app)
    for first in (0, 70, 140):
        apps.write(servers, name, first, 70, has_cities=False)
        with app.on_spark(
            spark, checkpoint=str(tmp_path / "checkpoint"), bootstrap=servers
        ) as running:
            running.process_available()
            if first:
                # Each driver has directories of its own on the machines.
                assert running.restored > 0

    counts = apps.in_order(apps.outs_of(servers, app), name)
    for outs in counts.values():
        assert [int(value) for value, _, _ in outs] == list(range(1, len(outs) + 1))
    assert sum(map(len, counts.values())) == 2 * 210


def test_a_batch_that_runs_again_adds_nothing(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, name, checkpoint = moldau_broker.bootstrap_servers, moldau_topic, tmp_path / "kept"
    app = apps.both(name)
    apps.make_topics(servers, app)
    outs = []
    for first, count in ((0, 100), (100, 0), (100, 50)):
        apps.write(servers, name, first, count, has_cities=not first)
        with app.on_spark(spark, checkpoint=str(checkpoint), bootstrap=servers) as running:
            running.process_available()
        outs.append(apps.outs_of(servers, app))
        # As if the driver had died after the tasks committed, and before it wrote that down.
        for each in (0, 1):
            for commit in checkpoint.glob(f"{each}/commits/*"):
                commit.unlink()

    assert len(outs[0]) > 300
    assert apps.in_order(outs[1], name) == apps.in_order(outs[0], name)
    for found in apps.in_order([each for each in outs[2] if "words" in each.topic], name).values():
        assert [int(value) for value, _, _ in found] == list(range(1, len(found) + 1))
    assert len([each for each in outs[2] if "words" in each.topic]) == 2 * 150


def test_a_record_that_fails_is_told_in_one_line(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    servers, name = moldau_broker.bootstrap_servers, moldau_topic
    app = Streams(name)
    app.stream(f"{name}-lines", str, key=str).map_values(lambda line: str(int(line))).to(
        f"{name}-out"
    )
    apps.make_topics(servers, app)
    apps.write(servers, name, 0, 1, has_cities=False)

    with (
        app.on_spark(spark, checkpoint=str(tmp_path / "checkpoint"), bootstrap=servers) as running,
        pytest.raises(StreamsError, match=r"offset=0 .*ValueError") as raised,
    ):
        running.process_available()

    assert "\n" not in str(raised.value)
    assert apps.outs_of(servers, app) == []


def test_a_function_that_cannot_be_sent_is_named_with_its_line(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    lock = Lock()

    def locked(value: str) -> str:
        with lock:
            return value

    app = Streams(moldau_topic)
    app.stream(f"{moldau_topic}-lines", str).map_values(locked).to(f"{moldau_topic}-out")

    with pytest.raises(TopologyError, match=rf"function locked \(.*{Path(__file__).name}, line "):
        app.on_spark(spark, checkpoint=str(tmp_path), bootstrap=moldau_broker.bootstrap_servers)


def test_a_batch_meets_the_version_that_a_lake_table_has(
    spark: Any, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, tmp_path: Path
) -> None:
    pa, delta = pytest.importorskip("pyarrow"), pytest.importorskip("deltalake")
    servers, path = moldau_broker.bootstrap_servers, str(tmp_path / "names")
    names = f"{moldau_topic}-e", f"{moldau_topic}-s"
    one, other = (apps.with_lake(name, path) for name in names)
    for app in (one, other):
        apps.make_topics(servers, app)
    with pytest.raises(StreamsError, match="lake table names: there is no Delta table at"):
        other.on_spark(spark, checkpoint=str(tmp_path / "none"), bootstrap=servers)

    delta.write_deltalake(path, pa.table({"id": ["k1", "k2"], "name": ["ada", "bob"]}))
    for name in names:
        apps.write(servers, name, 0, 30, has_cities=False)
    expected = apps.in_order(apps.embedded(servers, one, tmp_path / "state"), names[0])
    with other.on_spark(spark, checkpoint=str(tmp_path / "kept"), bootstrap=servers) as running:
        running.process_available()
        assert apps.in_order(apps.outs_of(servers, other), names[1]) == expected
        delta.write_deltalake(path, pa.table({"id": ["k1"], "name": ["eva"]}), mode="overwrite")
        apps.write(servers, names[1], 30, 7, has_cities=False)
        running.process_available()
    found = [(each.value or b"").decode() for each in apps.outs_of(servers, other)]
    assert sorted({each.partition(" by ")[2] for each in found}) == ["ada", "bob", "eva", "nobody"]
    assert sum(each.endswith("eva") for each in found) == 1
