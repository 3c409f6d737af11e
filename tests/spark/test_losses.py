"""Records that were lost before a query read them: `failOnDataLoss` decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from moldau.client.sync import Admin
from moldau.errors import ConfigError, MoldauError
from moldau.testing import SyncEmbeddedBroker
from tests.spark.queries import Queries, next_end, open_queries, planned
from tests.spark.topics import make_topic, numbers, send


@pytest.fixture
def query(moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> Iterator[Queries]:
    with open_queries(moldau_broker, moldau_topic) as queries:
        yield queries


@pytest.fixture
def admin(moldau_broker: SyncEmbeddedBroker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as found:
        yield found


def test_nothing_is_read_again_where_a_log_lost_its_end(
    query: Queries,
    moldau_broker: SyncEmbeddedBroker,
    moldau_topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(10))
    strict, lenient = query(), query(failOnDataLoss="false")
    reached = {**lenient.initialOffset(), moldau_topic: {"0": 50}}
    del reached["$start"]

    with pytest.raises(MoldauError, match="ends at 10, before 50: the log lost its end"):
        planned(strict, reached, next_end(strict, reached))
    end = next_end(lenient, reached)
    assert planned(lenient, reached, end) == []
    assert "the log lost its end" in caplog.text
    send(moldau_broker, moldau_topic, numbers(3))
    assert planned(lenient, end, next_end(lenient, end)) == [(0, 10, 13)]


def test_a_new_partition_whose_first_records_are_gone_is_a_loss(
    query: Queries, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, admin: Admin
) -> None:
    make_topic(moldau_broker, moldau_topic, 1)
    strict, lenient = query(), query(failOnDataLoss="false")
    reached = next_end(strict, strict.initialOffset())
    admin.create_partitions(moldau_topic, 2)
    send(moldau_broker, moldau_topic, numbers(10), partition=1)
    planned_before = planned(strict, reached, next_end(strict, reached))
    admin.delete_records({(moldau_topic, 1): 6})

    end = next_end(strict, reached)

    assert planned_before == [(1, 0, 10)]
    with pytest.raises(MoldauError, match=f"{moldau_topic}-1: offsets 0 to 6 were deleted"):
        planned(strict, reached, end)
    assert planned(lenient, reached, end) == [(1, 6, 10)]


def test_a_partition_that_a_topic_made_again_has_later_is_read_from_its_beginning(
    query: Queries, moldau_broker: SyncEmbeddedBroker, moldau_topic: str, admin: Admin
) -> None:
    make_topic(moldau_broker, moldau_topic, 2)
    for partition in range(2):
        send(moldau_broker, moldau_topic, numbers(10), partition)
    reader = query(startingOffsets="earliest", failOnDataLoss="false")
    reached = next_end(reader, reader.initialOffset())
    admin.delete_topic(moldau_topic)
    make_topic(moldau_broker, moldau_topic, 1)
    send(moldau_broker, moldau_topic, numbers(3))

    fewer = next_end(reader, reached)
    assert planned(reader, reached, fewer) == [(0, 0, 3)]
    admin.create_partitions(moldau_topic, 2)
    send(moldau_broker, moldau_topic, numbers(15), partition=1)
    grown = next_end(reader, fewer)

    assert fewer[moldau_topic] == {"0": 3}
    assert planned(reader, fewer, grown) == [(1, 0, 15)]


def test_a_partition_that_does_not_exist_cannot_be_assigned(
    query: Queries, moldau_broker: SyncEmbeddedBroker, moldau_topic: str
) -> None:
    make_topic(moldau_broker, moldau_topic, 2)

    with pytest.raises(ConfigError, match=f"unknown='{moldau_topic}-9: the topic has 2'"):
        query(assign=f'{{"{moldau_topic}":[0,9]}}').initialOffset()
    begun: dict[str, Any] = query(assign=f'{{"{moldau_topic}":[1]}}').initialOffset()
    assert begun[moldau_topic] == {"1": 0}
