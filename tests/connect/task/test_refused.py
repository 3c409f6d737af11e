"""A sink that refuses a batch for one bad record: the record goes to the dead letter queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from moldau.client.sync import Consumer
from moldau.connect.api import (
    ConnectError,
    DataError,
    RetriableError,
    SinkConnector,
    SinkRecord,
    SinkTask,
    ValueSinkTask,
)
from moldau.connect.task import parts
from moldau.connect.task.pending import Pending
from moldau.testing import SyncEmbeddedBroker
from tests.connect.processes import wait_until
from tests.connect.task.sink_runners import sink_runner


class Picky(SinkTask):
    """Writes the values of a whole list into memory, or refuses it all."""

    written: list[str]
    puts: list[int]

    def start(self, props: Mapping[str, str]) -> None:
        self.written, self.puts = [], []
        TASKS.append(self)

    def put(self, records: list[SinkRecord]) -> None:
        self.puts.append(len(records))
        self.take([each.value for each in records])

    def take(self, values: Sequence[Any]) -> None:
        if "bad" in values:
            raise DataError("it holds bad")
        self.written += values

    def stop(self) -> None:
        """Nothing runs."""


class PickyOfValues(ValueSinkTask, Picky):
    def put_values(self, values: Sequence[Any]) -> None:
        self.take(values)


class _Connector(SinkConnector):
    task = Picky


class _ValuesConnector(SinkConnector):
    task = PickyOfValues


TASKS: list[Picky] = []
VALUES = [b"a", b"bad", b"b"]


class Refusing:
    """Puts records into memory; refuses some, and is busy at one of them once."""

    def __init__(self, busy_at: str = "") -> None:
        self.written: list[str] = []
        self._busy_at = busy_at

    def put(self, records: list[SinkRecord]) -> None:
        values = [str(each.value) for each in records]
        if len(values) == 1 and values[0] == self._busy_at:
            self._busy_at = ""
            raise RetriableError("busy")
        if "bad" in values:
            raise DataError("it holds bad")
        self.written += values


def pending(*values: str) -> Pending:
    found = Pending()
    found.records = [SinkRecord("t", 0, value=each, offset=at) for at, each in enumerate(values)]
    return found


def test_a_refused_batch_is_put_record_by_record() -> None:
    sink, records, reported = Refusing(), pending("a", "bad", "b", "bad"), list[int]()

    records.put_records(sink.put, lambda record, error: reported.append(record.offset))

    assert sink.written == ["a", "b"]
    assert reported == [1, 3]


def test_what_is_put_before_another_error_is_not_put_again() -> None:
    sink, records, reported = Refusing(busy_at="b"), pending("a", "bad", "b", "c"), list[int]()

    def report(record: SinkRecord, error: DataError) -> None:
        reported.append(record.offset)

    with pytest.raises(RetriableError):
        records.put_records(sink.put, report)
    assert [each.value for each in records.records] == ["b", "c"]
    records.put_records(sink.put, report)

    assert sink.written == ["a", "b", "c"]
    assert reported == [1]


def test_without_tolerance_the_refusal_is_raised() -> None:
    with pytest.raises(DataError):
        pending("a", "bad").put_records(Refusing().put, None)


@pytest.mark.parametrize("connector", [_Connector, _ValuesConnector])
def test_the_bad_record_goes_to_the_dead_letter_queue(
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    monkeypatch: pytest.MonkeyPatch,
    connector: type[SinkConnector],
) -> None:
    monkeypatch.setattr(parts, "connector_class", lambda config: connector)
    dead = f"{moldau_topic}-dead"
    found = sink_runner(
        moldau_broker,
        moldau_topic,
        VALUES,
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=dead,
    )
    task = TASKS.pop()

    def is_done() -> bool:
        found.work()
        return task.written == ["a", "b"]

    wait_until(is_done, "the good records are written")
    found.close(is_clean=True)

    given = {"group.id": f"connect-{moldau_topic}", "auto.offset.reset": "earliest"}
    with Consumer({"bootstrap.servers": moldau_broker.bootstrap_servers, **given}) as consumer:
        [where] = consumer.partitions(moldau_topic)
        committed = consumer.committed([where], timeout_s=10)[where]
        letters = consumer.end_offsets(consumer.partitions(dead))
    assert committed is not None
    assert committed.offset == 3
    assert list(letters.values()) == [1]


def test_without_tolerance_the_task_fails(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "connector_class", lambda config: _Connector)
    found = sink_runner(moldau_broker, moldau_topic, VALUES)
    task = TASKS.pop()

    def fails() -> bool:
        try:
            found.work()
        except ConnectError:
            return True
        return False

    wait_until(fails, "the task fails")
    found.close(is_clean=False)
    assert task.written == []
