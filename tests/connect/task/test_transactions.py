"""The transactions of a source task on a broker: what is committed, and what a task is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from moldau.client.sync import Admin, NewTopic, Producer
from moldau.connect.api import SourceConnector, SourceRecord, SourceTask
from moldau.connect.errors import ConnectError
from moldau.connect.storage.keys import offset_key
from moldau.connect.task import parts
from moldau.connect.task.link import Link
from moldau.connect.task.messages import Message, TaskSpec
from moldau.connect.task.source import SourceRunner
from moldau.connect.task.submitted import SubmittedRecord
from moldau.logging import Loggers
from moldau.runtime.real import RealClock
from moldau.testing.threaded import SyncEmbeddedBroker
from tests.connect.committed import committed

pytestmark = pytest.mark.real

TEXT = "org.apache.kafka.connect.storage.StringConverter"
NUMBERS = "org.apache.kafka.connect.converters.IntegerConverter"
PLACE = {"file": "a"}


class Given(SourceTask):
    """Returns the polls that a test has given."""

    def start(self, props: Any) -> None:
        TASKS.append(self)
        self.polls: list[list[SourceRecord]] = []
        self.told: list[tuple[Any, bool]] = []
        self.commits = 0

    def poll(self) -> Sequence[SourceRecord] | None:
        return self.polls.pop(0) if self.polls else None

    def commit_record(self, record: SourceRecord, sent: Any) -> None:
        self.told.append((record.value, sent is not None))

    def commit(self) -> None:
        self.commits += 1

    def stop(self) -> None:
        return


TASKS: list[Given] = []


class _Connector(SourceConnector):
    task = Given


class Scene:
    """A runner of a source task, and the worker's answers to its questions."""

    def __init__(self, broker: SyncEmbeddedBroker, topic: str) -> None:
        self.bootstrap = broker.bootstrap_servers
        self.topic, self.offsets = topic, f"{topic}-offsets"
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, 2, 1), NewTopic(self.offsets, 2, 1)])
        self.asked: list[str] = []
        self.fencing: list[str | None] = [None]
        self.generation = 3
        self.link: Link
        self.runner: SourceRunner
        self.task: Given

    def open(self, **config: str) -> None:
        """Start a run of the task."""
        given = {
            "connector.class": "x",
            "key.converter": TEXT,
            "value.converter": TEXT,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        worker = {
            "bootstrap.servers": self.bootstrap,
            "exactly.once.source.support": "enabled",
            "offset.storage.topic": self.offsets,
        }
        spec = TaskSpec(self.topic, 0, worker, given, given, cluster=self.topic, generation=3)
        log = Loggers(RealClock(), lambda line: None).get("moldau.connect.given")
        link = self.link = Link(lambda message: self._answer(link, message))
        self.runner = SourceRunner(spec, link, RealClock(), log)
        self.runner.open()
        self.task = TASKS.pop()

    def _answer(self, link: Link, message: Message) -> None:
        if message["type"] != "ask":
            return
        self.asked.append(message["what"])
        answer: Message = {"type": "answer", "id": message["id"]}
        match message["what"]:
            case "tasks.fence":
                answer["value"] = self.fencing.pop() if len(self.fencing) > 1 else None
            case "tasks.verify" if message["generation"] != self.generation:
                answer["error"] = "the task is superseded"
            case "offsets.keys":
                keys = [offset_key(self.topic, each).decode() for each in message["partitions"]]
                answer["value"] = keys
        link.deliver(answer)

    def record(self, number: int, value: Any = None) -> SourceRecord:
        value = f"line {number}" if value is None else value
        return SourceRecord(PLACE, {"position": number}, self.topic, key="k", value=value)

    def poll(self, *records: SourceRecord) -> None:
        self.task.polls.append(list(records))
        self.runner.work()

    def written(self) -> tuple[list[str], list[str]]:
        """The committed records and offsets."""
        return committed(self.bootstrap, self.topic), committed(self.bootstrap, self.offsets)


@pytest.fixture
def scene(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    monkeypatch.setattr(parts, "connector_class", lambda config: _Connector)
    found = Scene(moldau_broker, f"{moldau_topic}-exact")
    yield found
    if hasattr(found, "runner"):
        found.runner.close(is_clean=False)


def test_each_poll_is_committed_with_its_offset_and_told_afterwards(scene: Scene) -> None:
    scene.open()
    assert scene.asked == ["tasks.fence", "tasks.verify"]
    scene.poll(scene.record(1), scene.record(2))
    assert scene.task.told == [("line 1", True), ("line 2", True)]
    scene.poll(scene.record(3))

    assert scene.written() == (["line 1", "line 2", "line 3"], ['{"position":2}', '{"position":3}'])
    assert scene.task.commits == 2


def test_an_empty_poll_commits_nothing_and_dropped_records_only_their_offsets(
    scene: Scene,
) -> None:
    scene.open(errors_tolerance="all", value_converter=NUMBERS, errors_retry_timeout="0")
    scene.runner.work()
    assert scene.task.commits == 0
    scene.poll(scene.record(1, "no number"))

    assert scene.written() == ([], ['{"position":1}'])
    assert scene.task.told == [("no number", False)]


def test_a_record_that_cannot_be_converted_aborts_the_transaction(scene: Scene) -> None:
    scene.open()
    with pytest.raises(ConnectError):
        scene.poll(scene.record(1), scene.record(2, object()))
    scene.runner.close(is_clean=False)

    assert scene.written() == ([], [])


def test_a_task_ends_its_transactions_itself(scene: Scene) -> None:
    scene.open(transaction_boundary="connector")
    wishes = scene.task.context.transaction_context
    assert wishes is not None
    records = [scene.record(number) for number in range(1, 6)]
    wishes.commit_transaction(records[1])
    wishes.abort_transaction(records[3])
    scene.poll(*records)
    assert scene.written() == (["line 1", "line 2"], ['{"position":2}', '{"position":4}'])
    assert scene.task.told == [
        ("line 1", True), ("line 2", True), ("line 3", False), ("line 4", False),
    ]  # fmt: skip

    scene.runner.close(is_clean=True)

    assert scene.written()[0] == ["line 1", "line 2"], "line 5 is not finished"
    assert len(scene.task.told) == 4, "line 5 is read again"


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_a_stop_in_the_middle_of_a_poll_commits_no_part_of_it(
    scene: Scene, boundary: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.open(transaction_boundary=boundary)
    produce = scene.runner._produce

    def produce_and_stop(record: SourceRecord, entry: SubmittedRecord) -> None:
        produce(record, entry)
        if record.value == "line 2":
            scene.link.deliver({"type": "stop", "why": "move"})

    monkeypatch.setattr(scene.runner, "_produce", produce_and_stop)
    scene.poll(*[scene.record(1, f"line {number}") for number in range(1, 4)])
    scene.runner.close(is_clean=True)

    assert scene.written() == ([], []), "their offset is that of line 3"
    assert scene.task.told == [], "all of them are read again"


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_record_that_the_cluster_rejects_fails_the_task(scene: Scene, tolerance: str) -> None:
    scene.open(errors_tolerance=tolerance, producer_override_max_request_size="1000")

    with pytest.raises(ConnectError, match="refused a record"):
        scene.poll(scene.record(1), scene.record(2, "x" * 2_000))
    scene.runner.close(is_clean=False)

    assert scene.written() == ([], [])


def test_an_interval_is_committed_at_the_end(scene: Scene) -> None:
    scene.open(transaction_boundary="interval", transaction_boundary_interval_ms="600000")
    scene.poll(*[scene.record(number) for number in range(20)])
    scene.poll(scene.record(20))
    assert scene.written() == ([], [])

    scene.runner.close(is_clean=True)

    records, offsets = scene.written()
    assert (len(records), offsets) == (21, ['{"position":20}'])


def test_a_task_that_was_replaced_cannot_commit(scene: Scene) -> None:
    scene.open(transaction_boundary="interval", transaction_boundary_interval_ms="600000")
    scene.poll(scene.record(1))
    old = scene.runner
    old._producer.flush()  # else the record itself is refused, and no commit is tried
    scene.open()
    scene.poll(scene.record(1))

    old.close(is_clean=True)
    assert old.metrics()["source-offset-commit-failure-total"] == 1

    assert scene.written() == (["line 1"], ['{"position":1}'])


def test_a_task_of_older_configs_is_refused_before_it_reads_anything(scene: Scene) -> None:
    scene.generation = 4

    with pytest.raises(ConnectError, match="superseded"):
        scene.open()
    scene.runner.close(is_clean=False)

    assert not TASKS


def test_a_task_waits_until_older_tasks_are_fenced(scene: Scene) -> None:
    with Producer(
        bootstrap_servers=scene.bootstrap, transactional_id=f"{scene.topic}-{scene.topic}-0"
    ) as other:
        other.begin_transaction()
        scene.fencing = [None, "there is no leader"]
        scene.open()

        assert scene.asked == ["tasks.fence", "tasks.fence", "tasks.verify"]
        other.send(scene.topic, b"late")
        with pytest.raises(Exception, match="fenced"):
            other.commit_transaction()
