"""A sink task that gets columns: what counts as done while a later part is tried again or left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from moldau.client import NewTopic
from moldau.client.sync import Admin, Consumer, Producer
from moldau.connect.api import (
    ColumnSinkTask,
    RetriableError,
    SinkColumns,
    SinkConnector,
    SinkRecord,
)
from moldau.connect.task import parts
from moldau.connect.task.link import Link
from moldau.connect.task.messages import Message, TaskSpec
from moldau.connect.task.sink import SinkRunner
from moldau.logging import Loggers
from moldau.runtime.real import RealClock
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until

COUNT = 10
JSON = "org.apache.kafka.connect.json.JsonConverter"


class Target(ColumnSinkTask):
    """Writes into memory. `fails_at` is the number of the part that is to be tried again."""

    fails_at: int | None = None
    parts: list[tuple[int, int]]
    records: list[SinkRecord]
    stops: Link | None = None

    def start(self, props: Mapping[str, str]) -> None:
        self.parts, self.records = [], []
        TASKS.append(self)

    def put(self, records: list[SinkRecord]) -> None:
        self.records += records

    def put_columns(self, part: SinkColumns) -> int:
        if len(self.parts) == self.fails_at:
            raise RetriableError("the database is busy")
        self.parts.append((part.partition, len(part)))
        if self.stops is not None:
            self.stops.deliver({"type": "stop", "why": "move"})
        return len(part)

    def stop(self) -> None:
        """Nothing runs."""


TASKS: list[Target] = []
"""The tasks that were started."""


class _Connector(SinkConnector):
    task = Target


class Scene:
    """A runner of a task with the partitions of one topic."""

    def __init__(self, broker: SyncEmbeddedBroker, topic: str, partitions: int) -> None:
        self.broker = broker
        self.topic = topic
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic, partitions, 1)])
        config = {
            "connector.class": "x",
            "topics": topic,
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "errors.tolerance": "all",
        }
        worker = {"bootstrap.servers": broker.bootstrap_servers}
        sent: list[Message] = []
        self.link = Link(sent.append)
        log = Loggers(RealClock(), lambda line: None).get("moldau.connect.target")
        self.runner = SinkRunner(TaskSpec(topic, 0, worker, config, config), self.link,
                                 RealClock(), log)  # fmt: skip
        self.runner.open()
        self.task = TASKS.pop()

    def work_until(self, is_reached: Callable[[], bool], what: str) -> None:
        def worked() -> bool:
            self.runner.work()
            return is_reached()

        wait_until(worked, what)

    def send(self, partition: int, value: bytes = b'{"id": 1}', count: int = COUNT) -> None:
        with Producer(bootstrap_servers=self.broker.bootstrap_servers) as producer:
            for _ in range(count):
                producer.send(self.topic, value, partition=partition)

    def committed(self) -> dict[int, int]:
        group = {"group.id": f"connect-{self.topic}"}
        with Consumer({"bootstrap.servers": self.broker.bootstrap_servers, **group}) as consumer:
            all_ = consumer.partitions(self.topic)
            found = consumer.committed(all_, timeout_s=10)
        return {at.partition: each.offset for at, each in found.items() if each}


@pytest.fixture
def scene(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Scene]:
    monkeypatch.setattr(parts, "connector_class", lambda config: _Connector)
    found = Scene(moldau_broker, f"{moldau_topic}-columns", 4)
    yield found
    found.runner.close(is_clean=False)


def test_a_written_part_is_done_while_another_is_tried_again(scene: Scene) -> None:
    scene.task.fails_at = 1
    for partition in (0, 1):
        scene.send(partition)

    scene.work_until(lambda: scene.runner.schedule.is_held, "the second part is to be tried again")
    scene.runner.close(is_clean=True)

    [(partition, count)] = scene.task.parts
    assert scene.committed() == {partition: count}
    assert scene.runner.metrics()["sink-record-send-total"] == count


def test_a_task_that_stops_puts_no_further_part(scene: Scene) -> None:
    for partition in (0, 1):
        scene.send(partition)
    scene.task.stops = scene.link

    scene.work_until(lambda: bool(scene.task.parts), "a part is put")
    is_alone = len(scene.task.parts) == 1
    scene.runner.close(is_clean=True)

    assert is_alone
    [(partition, count)] = scene.task.parts
    assert scene.committed() == {partition: count}


def test_odd_records_of_several_partitions_are_one_try_of_columns(scene: Scene) -> None:
    for partition in range(4):
        scene.send(partition, b"[1]", 1)
    scene.work_until(lambda: len(scene.task.records) == 4, "odd ones are put")

    scene.send(0)
    scene.work_until(lambda: bool(scene.task.parts), "a part is put")

    assert scene.task.parts[0][0] == 0


def test_the_position_is_that_of_all_parts(scene: Scene) -> None:
    for partition in range(4):
        scene.send(partition)
    scene.work_until(
        lambda: sum(n for _, n in scene.task.parts) == 4 * COUNT,
        "all parts are put",
    )
    scene.runner.close(is_clean=True)

    assert scene.committed() == dict.fromkeys(range(4), COUNT)
    assert scene.runner.metrics()["sink-record-send-total"] == 4 * COUNT
