"""`moldau produce` says what a broker answers while it goes on trying."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.cli.application import run
from moldau.cli.command import Context
from moldau.cli.commands import produce
from moldau.cli.commands.produce_trouble import Trouble
from moldau.cli.progress import Progress
from moldau.client import Producer, TopicPartition
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.plugins import Plugins, installed_plugins
from moldau.testing import SyncEmbeddedBroker
from tests.broker.hostile.small_disk import small_disk
from tests.cli.processes import line_of, running
from tests.cli.shell import Shell
from tests.conformance.broker import MoldauBroker
from tests.peers.eventually import eventually

NO_FLOOR = "moldau.log.dir.free.bytes.min=0"
"""Else produces may be refused before the disk is full, and its directory stays in service."""


class Troubled(Producer):
    """Has the troubles that a test gives it."""

    def __init__(self) -> None:
        super().__init__(bootstrap_servers="localhost:9092", delivery_timeout_ms=90_000)
        self.now: dict[TopicPartition, KafkaError] = {}
        self.blind: KafkaError | None = None

    @property
    def blind_for(self) -> KafkaError | None:
        return self.blind

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        return self.now


def progress(err: io.StringIO) -> Progress:
    """Without a bar."""
    context = Context(io.StringIO(), err, {}, lambda: Plugins([]))
    return Progress(context, "sent", None, lambda: 0.0)


def test_each_trouble_is_told_once() -> None:
    err = io.StringIO()
    producer = Troubled()
    trouble = Trouble(progress(err), producer)
    trouble.report(2.0)
    full = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    producer.now = {first: full}
    trouble.report(4.0)
    trouble.report(6.0)
    producer.now = {first: full, second: full}
    trouble.report(8.0)
    producer.now = {first: full, second: KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "too few")}
    trouble.report(10.0)
    retried = "tried again until delivery.timeout.ms (90 s) is over"
    assert err.getvalue().splitlines() == [
        f"moldau: t-0: not acknowledged for 4 s, {retried}: KAFKA_STORAGE_ERROR: the disk is full",
        f"moldau: t-1 and 1 more partitions: not acknowledged for 10 s, {retried}: "
        "NOT_ENOUGH_REPLICAS: too few",
    ]


def test_a_topic_is_not_to_blame_for_a_broker_that_does_not_answer() -> None:
    err = io.StringIO()
    producer = Troubled()
    trouble = Trouble(progress(err), producer)
    producer.blind = KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no broker can be reached")
    trouble.miss("t", 2.0)
    trouble.miss("t", 4.0)
    producer.blind = None
    trouble.miss("t", 6.0)
    trouble.miss("t", 8.0)
    limit = "asked for until max.block.ms (60 s) is over"
    assert err.getvalue().splitlines() == [
        f"moldau: t: no broker answers for 2 s, {limit}: BROKER_NOT_AVAILABLE: no broker can be "
        "reached",
        f"moldau: t: no such topic is known for 6 s, {limit}",
    ]


class Late(io.BytesIO):
    """One line, before which something happens."""

    def __init__(self, before: Callable[[], object]) -> None:
        super().__init__(b"x\n")
        self._before = before

    def read1(self, size: int | None = -1, /) -> bytes:
        self._before()
        return super().read1(size)


@pytest.mark.real
def test_a_broker_that_goes_before_the_first_line_is_told(tmp_path: Path) -> None:
    err = io.StringIO()
    with MoldauBroker(tmp_path) as broker:
        environment = {"MOLDAU_BOOTSTRAP": broker.bootstrap_servers}
        source = Late(broker.kill)
        context = Context(io.StringIO(), err, environment, installed_plugins, source=source)
        code = run(("produce", "t", "--set", "max.block.ms=4500"), context)
    assert code == 1
    told, failed = err.getvalue().splitlines()
    assert told.startswith("moldau: t: no broker answers for 2 s, asked for until max.block.ms (4.")
    assert "BROKER_NOT_AVAILABLE" in told
    assert failed.startswith("moldau: BROKER_NOT_AVAILABLE")


@pytest.mark.real
def test_a_topic_that_does_not_exist_is_not_waited_for() -> None:
    with SyncEmbeddedBroker({"auto.create.topics.enable": False}) as broker:
        shell = Shell(broker.bootstrap_servers)
        done = shell("produce", "nowhere", source="x\n")
        shell.good("topic", "create", "nowhere-else")
        near = shell("produce", "nowhere-els", source="x\n")
    assert (done.code, near.code) == (1, 1)
    assert done.err == (
        "moldau: UNKNOWN_TOPIC_OR_PARTITION: there is no topic nowhere, and the cluster creates "
        "none: moldau topic create nowhere (topic='nowhere')\n"
    )
    assert "there is no topic nowhere-els; did you mean nowhere-else?" in near.err


@pytest.mark.real
def test_a_topic_is_missing_only_if_the_cluster_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the answer is, and not before the time that the user gives."""
    monkeypatch.setattr(produce, "PATIENCE_S", 1e-5)
    with SyncEmbeddedBroker({"auto.create.topics.enable": False}) as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.good("topic", "create", "there")
        sent = shell("produce", "there", source="x\n")
        assert (sent.code, shell.good("consume", "there").out) == (0, "x\n"), sent.err
        missing = shell("produce", "theer", source="x\n")
        waited = shell("produce", "theer", "--set", "max.block.ms=300", source="x\n")
    assert (missing.code, waited.code) == (1, 1)
    assert "there is no topic theer; did you mean there?" in missing.err
    assert "max.block.ms" not in missing.err
    assert "asked for until max.block.ms (0.3 s) is over\n" in waited.err
    assert "UNKNOWN_TOPIC_OR_PARTITION" in waited.err


@pytest.mark.real
def test_a_broker_that_goes_and_comes_back_is_waited_for_aloud(tmp_path: Path) -> None:
    with MoldauBroker(tmp_path) as broker:
        shell = Shell(broker.bootstrap_servers)
        shell.good("topic", "create", "gap", "--partitions", "1")
        with running(broker, "produce", "gap") as process:
            assert process.stdin is not None
            process.stdin.write("one\n")
            process.stdin.flush()
            eventually(lambda: shell.good("consume", "gap").out == "one\n")
            broker.kill()
            process.stdin.write("two\n")
            process.stdin.close()
            told = line_of(process.stderr)
            assert told.startswith("moldau: gap-0: not acknowledged for ")
            assert f"{broker.port}" in told
            broker.start()
        assert shell.good("consume", "gap").out == "one\ntwo\n"


@pytest.mark.real
def test_a_full_disk_is_told_while_it_is_waited_for(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        directories = f"log.dirs={tmp_path / 'large'},{disk.path / 'small'}"
        small = ("log.segment.bytes=1048576", "log.index.size.max.bytes=4096", NO_FLOOR)
        with MoldauBroker(tmp_path / "broker", *_settings(directories, *small)) as broker:
            shell = Shell(broker.bootstrap_servers)
            shell.good("topic", "create", "full", "--partitions", "2")
            load = ("produce", "full", "--count", "20000", "--size", "1000")
            with running(broker, *load, code=130) as process:
                told = line_of(process.stderr)
                assert "KAFKA_STORAGE_ERROR" in told
                assert "tried again until delivery.timeout.ms (120 s) is over" in told
                process.send_signal(signal.SIGINT)
            partition = told.removeprefix("moldau: full-").partition(":")[0]
            for words in (("offsets", "full"), ("offsets", "full", "--at", "latest")):
                done = shell(*words)
                other = str(1 - int(partition))
                assert (done.code, [row[1] for row in done.rows]) == (1, [other])
                lack = "has no leader: its offsets are not known now"
                assert done.err == f"moldau: full-{partition} {lack}\n"
            (found,) = shell("offsets", "full", "--json").json
            for group in ([], ["--group", "readers"]):
                done = shell("consume", "full", "--quiet", "--json", *group)
                assert (done.code, done.json["records"]) == (1, found["latest"])
                assert f"moldau: full-{partition} has no leader: " in done.err
            limits = _settings("delivery.timeout.ms=5000", "request.timeout.ms=1000")
            done = shell("produce", "full", "--partition", partition, *limits, source="x\n")
            assert done.code == 1
            told, failed = done.err.splitlines()
            assert f"full-{partition}: not acknowledged for 2 s" in told
            assert "LEADER_NOT_AVAILABLE" in told
            assert failed.startswith("moldau: REQUEST_TIMED_OUT: not delivered")
            assert "LEADER_NOT_AVAILABLE" in failed


def _settings(*values: str) -> list[str]:
    return [word for value in values for word in ("--set", value)]
