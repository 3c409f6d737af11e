"""Replays of dead letters: of one connector, each once, and one at a time."""

from __future__ import annotations

import json
from argparse import Namespace
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.cli.command import Context
from moldau.client import ErrorCode, KafkaError, NewTopic, TopicPartition
from moldau.client.sync import Admin, Consumer, Producer
from moldau.connect.commands import dead_letters
from moldau.connect.task.dead_letter import PREFIX
from moldau.plugins import Plugins
from moldau.testing import SyncEmbeddedBroker


def no_plugins() -> Plugins:
    raise AssertionError("a replay needs no plugin")


def new_context() -> Context:
    return Context(StringIO(), StringIO(), {}, no_plugins)


def told(context: Context) -> str:
    """What a command has written."""
    assert isinstance(context.out, StringIO)
    return context.out.getvalue()


def replayed(bootstrap: str, name: str) -> str:
    """What the command says."""
    arguments = Namespace(name=name, where=None, to=name, json=False)
    context = new_context()
    dead_letters._replay((bootstrap, f"{name}-dlq"), {}, arguments, context)
    return told(context)


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    """The values of the committed records."""
    with Consumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(consumer.partitions(topic))
        return [each.value for each in dead_letters._all_of(consumer, topic)]


@pytest.mark.real
def test_a_replay_that_begins_ends_the_one_before_it(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bootstrap, name = moldau_broker.bootstrap_servers, moldau_topic
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(f"{name}-dlq"))
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(f"{name}-dlq", b"bad").result()
    send, others = dead_letters._send, []

    def after_another(*given: object) -> bool:
        """Send a record of a replay once another replay was made meanwhile."""
        monkeypatch.setattr(dead_letters, "_send", send)
        others.append(replayed(bootstrap, name))
        return send(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(dead_letters, "_send", after_another)
    with pytest.raises(dead_letters.ReplayEnded, match="another replay"):
        replayed(bootstrap, name)
    assert others == ["1 replayed, 0 passed over\n"]
    assert values(bootstrap, name) == [b"bad"]


@pytest.mark.real
def test_records_of_another_connector_and_of_an_aborted_transaction_are_passed_over(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    bootstrap, name = moldau_broker.bootstrap_servers, moldau_topic
    queue = f"{name}-dlq"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(NewTopic(queue))
    written = {b"own": (name, True), b"other": ("other", True), b"aborted": (name, False)}
    with Producer({"bootstrap.servers": bootstrap, "transactional.id": name}) as producer:
        for value, (owner, is_committed) in written.items():
            headers = [(f"{PREFIX}connector.name", owner.encode())]
            with producer.transaction() as opened:
                producer.send_and_wait(queue, value, headers=headers)
                if not is_committed:
                    opened.abort()
    context = new_context()
    arguments = Namespace(name=name, where=None, json=True)
    dead_letters._list((bootstrap, queue), arguments, context)
    assert [each["connector.name"] for each in json.loads(told(context))] == [name]
    assert replayed(bootstrap, name) == "1 replayed, 1 passed over\n"
    assert values(bootstrap, name) == [b"own"]


class HalfLed:
    """A consumer of two partitions with a record each; the second one has lost its leader."""

    def __init__(self) -> None:
        self.polls = 0

    def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, 0), TopicPartition(topic, 1)]

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 1)

    def position(self, where: TopicPartition) -> int | None:
        return 1 if self.polls and where.partition == 0 else None

    def poll(self, timeout_s: float) -> list[Any]:
        self.polls += 1
        assert self.polls < 100, "it polls for ever"
        if self.polls > 1:
            return []
        raw = SimpleNamespace(offset=0, timestamp=1, key=None, value=b"bad", headers=())
        return [SimpleNamespace(topic="dead", partition=0, records=[raw])]

    def troubles(self) -> dict[TopicPartition, KafkaError]:
        return {TopicPartition("dead", 1): KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)}


def test_a_queue_with_a_partition_without_a_leader_is_read_as_far_as_it_goes() -> None:
    consumer: Any = HalfLed()
    records = dead_letters._all_of(consumer, "dead")
    assert next(records).value == b"bad"
    with pytest.raises(dead_letters.QueueUnreadable) as told:
        next(records)
    assert told.value.context["partitions"] == "1"
    assert "LEADER_NOT_AVAILABLE" in told.value.context["reason"]
