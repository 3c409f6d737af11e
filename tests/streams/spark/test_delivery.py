"""Attempts of a task on one batch: the last one counts, and only once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from moldau.client import TransactionError
from moldau.client.sync import Admin, Consumer
from moldau.executors.clients import CLIENTS
from moldau.streams.engine.batches import Outputs
from moldau.streams.problems import StateError
from moldau.streams.spark.delivery import TaskBatch, exactly_once, record_beginning, take_task
from moldau.streams.spark.versions import Version, token_of
from moldau.testing import SyncEmbeddedBroker
from tests.spark.topics import make_topic


def outputs(topic: str, text: str) -> Outputs:
    return Outputs(topic, [None], [text.encode()], [1_790_000_000_000])


def committed(broker: SyncEmbeddedBroker, topic: str) -> list[bytes | None]:
    """What a reader of committed records finds."""
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        where = consumer.partitions(topic)
        consumer.assign(where)
        end = consumer.end_offsets(where)[where[0]]
        found: list[bytes | None] = []
        while (consumer.position(where[0]) or 0) < end:
            found += [each.value for part in consumer.poll(1) for each in part.records]
    return found


@pytest.fixture
def clients(moldau_broker: SyncEmbeddedBroker) -> Iterator[dict[str, str]]:
    """The settings of all clients. Attempts share an admin client, which an executor keeps open."""
    settings = {"bootstrap.servers": moldau_broker.bootstrap_servers}
    yield settings
    CLIENTS.clear()


def test_an_attempt_that_is_taken_over_commits_nothing_and_a_later_one_finds_the_version(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, clients: dict[str, str]
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    batch = TaskBatch(moldau_topic, 0, 0, "9", 1, 3)
    before = Version()
    after = before.after(token_of(3, 1, 2), 10, "times", is_snapshot=False).at({moldau_topic: 5})

    def late() -> None:
        with exactly_once(clients, clients, batch) as first:
            assert first.committed((moldau_topic,), before) is None
            with first.transaction():
                first.send(outputs(moldau_topic, "first"))
                with exactly_once(clients, clients, batch) as second:
                    assert second.committed((moldau_topic,), before) is None
                    with second.transaction():
                        second.send(outputs(moldau_topic, "second"))
                        second.record(before, after)
                first.record(before, before.at({moldau_topic: 5}))

    with pytest.raises(TransactionError):
        late()

    assert committed(moldau_broker, moldau_topic) == [b"second"]
    with exactly_once(clients, clients, batch) as third:
        assert third.committed((moldau_topic,), before) == after


def test_an_attempt_of_an_earlier_run_commits_nothing_once_its_task_is_taken_over(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, clients: dict[str, str]
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    batch = TaskBatch(moldau_topic, 0, 0, "9", 1, 3)
    before = Version()

    def early() -> None:
        with exactly_once(clients, clients, batch) as attempt, attempt.transaction():
            attempt.send(outputs(moldau_topic, "early"))
            with Admin(clients) as admin:
                assert take_task(clients, admin, replace(batch, run=2), {moldau_topic: 0}) == {}
            attempt.record(before, before.at({moldau_topic: 5}))

    with pytest.raises(TransactionError):
        early()
    with (
        exactly_once(clients, clients, batch) as late,
        pytest.raises(StateError, match="another driver, or a move, runs this app since"),
    ):
        late.committed((moldau_topic,), before)
    assert committed(moldau_broker, moldau_topic) == []


def test_a_checkpoint_does_not_begin_where_a_newer_one_has(
    moldau_broker: SyncEmbeddedBroker, moldau_topic: str, clients: dict[str, str]
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    older = TaskBatch(moldau_topic, 0, 0, "9", 1, -1)
    with Admin(clients) as admin:
        record_beginning(clients, admin, replace(older, checkpoint="10"), {moldau_topic: 5})
        with pytest.raises(StateError, match="begun with another checkpoint after this one"):
            record_beginning(clients, admin, older, {moldau_topic: 7})
        (found,) = admin.group_offsets(older.group).values()

    assert found.offset == 5
