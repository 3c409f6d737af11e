"""An app of a streams group is reset where Apache Kafka is the broker, and by Kafka's own tool on
ours: a worker is killed, the app is reset, its input gets more partitions, and it begins again."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Final

import pytest

from moldau.client.sync import Admin
from moldau.testing import SyncEmbeddedBroker
from tests.peers.apache_kafka import OLDER, VERSION, ApacheKafka, fetch_or_skip
from tests.peers.eventually import eventually
from tests.peers.kafka_broker import BrokerOptions, KafkaBroker, run_tool
from tests.streams.real.running import App, streams

pytestmark = [pytest.mark.real, pytest.mark.deep]

SESSIONS: Final = {
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "500",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
}
CLASSIC: Final = ("commit.interval.ms=200",)
OPTIONS: Final = BrokerOptions(properties=SESSIONS)
GROUPS: Final = "org.apache.kafka.tools.streams.StreamsGroupCommand"


@pytest.mark.parametrize("version", [OLDER, VERSION])
def test_an_app_begins_again_with_more_partitions_on_kafka(tmp_path: Path, version: str) -> None:
    kafka = fetch_or_skip(version)
    with KafkaBroker.started(kafka, tmp_path / "kafka", OPTIONS) as broker:
        app = with_a_killed_worker(broker.bootstrap_servers, tmp_path)
        reset(app)
        begins_again(app)


@pytest.mark.parametrize("version", [OLDER, VERSION])
def test_kafkas_tool_resets_an_app_on_our_broker(tmp_path: Path, version: str) -> None:
    kafka = fetch_or_skip(version)
    with SyncEmbeddedBroker(SESSIONS, directory=str(tmp_path / "broker")) as broker:
        app = with_a_killed_worker(broker.bootstrap_servers, tmp_path)
        reset_by_kafkas_tool(kafka, app)
        begins_again(app)


@pytest.mark.parametrize("version", [OLDER, VERSION])
def test_kafkas_tool_resets_an_app_on_kafka(tmp_path: Path, version: str) -> None:
    """Kafka's tool leaves the group its topology, which has the partitions of before."""
    kafka = fetch_or_skip(version)
    with KafkaBroker.started(kafka, tmp_path / "kafka", OPTIONS) as broker:
        app = with_a_killed_worker(broker.bootstrap_servers, tmp_path)
        reset_by_kafkas_tool(kafka, app)
        with Admin(bootstrap_servers=app.servers) as admin:
            admin.create_partitions(f"{app.name}-lines", 3)
        refused = app.start()
        refused.wait(60)
        assert "with moldau streams reset" in app.log.read_text()
        streams_group, app.settings = app.settings, CLASSIC
        classic = app.start()
        app.write("d")
        app.read(lambda found: found == {"a": 2, "b": 2, "c": 1, "d": 1})
        app.stop(classic)
        app.settings = streams_group
        reset(app)
        begins_again(app, last=2)


def reset_by_kafkas_tool(kafka: ApacheKafka, app: App) -> None:
    words = ("--to-earliest", "--delete-all-internal-topics", "--execute")
    group = ("--group", app.name, "--all-input-topics")
    run_tool(kafka, GROUPS, "--bootstrap-server", app.servers, "--reset-offsets", *group, *words)
    with Admin(bootstrap_servers=app.servers) as admin:
        offsets = admin.group_offsets(app.name).items()
        assert {each.offset for where, each in offsets if where.topic == f"{app.name}-lines"} == {0}
        left = {each.name.removeprefix(f"{app.name}-") for each in admin.list_topics()}
    assert left >= {"lines", "out", "largest"}
    assert left.isdisjoint({"counts-changelog", "counts-repartition"})


def with_a_killed_worker(servers: str, folder: Path) -> App:
    """An app of two workers, one of which is killed; the other one has gone on and stopped."""
    settings = (*CLASSIC, "group.protocol=streams")
    app = App(servers, f"again-{folder.name}", folder, settings=settings).make()
    first, second = (app.start("--state", state) for state in states(app))
    app.write("a b a")
    app.read(lambda found: found == {"a": 2, "b": 1})
    eventually(lambda: len(members(app)) == 2, within_s=60)
    first.send_signal(signal.SIGKILL)
    first.wait()
    eventually(lambda: len(members(app)) == 1, within_s=60)
    app.write("b c")
    app.read(lambda found: found == {"a": 2, "b": 2, "c": 1})
    app.stop(second)
    return app


def states(app: App) -> list[str]:
    """The directory of each of the two workers."""
    return [str(app.state), str(app.folder / "other")]


def members(app: App) -> list[str]:
    with Admin(bootstrap_servers=app.servers) as admin:
        return [each.member_id for each in admin.describe_group(app.name).members]


def reset(app: App) -> None:
    for state in states(app):
        code, _, err = streams(app, "reset", "--state", state, "--execute")
        assert code == 0, err


def begins_again(app: App, last: int = 1) -> None:
    """With more partitions, two workers count all lines from the beginning, and the last one."""
    with Admin(bootstrap_servers=app.servers) as admin:
        assert {each.offset for each in admin.group_offsets(app.name).values()} == {0}
        if len(admin.partitions(f"{app.name}-lines")) == 2:
            admin.create_partitions(f"{app.name}-lines", 3)
    running = [app.start("--state", state) for state in states(app)]
    app.write("d")
    counts = {"a": 2, "b": 2, "c": 1, "d": last}
    app.read(lambda found: found == counts)
    eventually(lambda: len(members(app)) == 2, within_s=60)
    for each in running:
        app.stop(each)
