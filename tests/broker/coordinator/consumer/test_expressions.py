"""Expressions in the life of a group: resolved beside heartbeats, again when topics come."""

from __future__ import annotations

import pytest

from moldau.broker.coordinator.group.consumer import regex as module
from moldau.errors.codes import ErrorCode
from tests.broker.coordinator.consumer import world
from tests.broker.coordinator.consumer.clients import Client
from tests.broker.coordinator.consumer.shard import Shard

NAMED = {"group.consumer.session.timeout.ms": 60_000}
SEARCH_APART_MS = 10_001


def member(shard: Shard, member_id: str, regex: str, *topics: str) -> Client:
    client = Client(shard, member_id, list(topics), regex)
    client.beat()
    return client


def settle(shard: Shard, *clients: Client) -> None:
    for _ in range(6):
        for client in clients:
            client.beat()
        shard.wait(10)


def names(shard: Shard, client: Client) -> set[str]:
    """The topics that the client reads."""
    found = set()
    for topic_id, _ in client.owned:
        topic = shard.world.cluster.by_id(topic_id)
        assert topic is not None
        found.add(topic.name)
    return found


def test_a_heartbeat_does_not_wait_for_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_MATCHES", 2)
    shard = Shard({f"t{number}": 1 for number in range(5)}, NAMED)
    client = member(shard, "a", "t.*")
    assert client.epoch == 1
    assert shard.state.volatile.search is not None
    settle(shard, client)
    assert len(client.owned) == 5


def test_an_expression_that_matches_nothing_frees_what_its_member_had() -> None:
    """Kafka 4.3.1 leaves the partitions in that member's target, and nobody reads them."""
    shard = Shard({"t1": 4}, NAMED)
    one, other = member(shard, "a", "t.*"), member(shard, "b", "t.*")
    settle(shard, one, other)
    assert len(one.owned) == len(other.owned) == 2
    shard.wait(SEARCH_APART_MS)
    one.regex = "nothing.*"
    one.beat(is_full=True)
    settle(shard, one, other)
    assert len(other.owned) == 4
    assert not one.owned


def test_topics_that_come_are_found_with_the_next_search() -> None:
    shard = Shard({"t1": 2}, NAMED)
    client = member(shard, "a", "t.*")
    settle(shard, client)
    shard.change_topic("t2", 2)
    shard.change_topic("u", 2)
    settle(shard, client)
    assert names(shard, client) == {"t1"}
    shard.wait(SEARCH_APART_MS)
    settle(shard, client)
    assert names(shard, client) == {"t1", "t2"}


def test_a_clock_that_was_set_back_delays_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = Shard({"t1": 2, "u": 2}, NAMED)
    settle(shard, member(shard, "a", "t.*"))
    monkeypatch.setattr(world, "BOOT_WALL_MS", world.BOOT_WALL_MS - 3_600_000)
    client = member(shard, "b", "u.*")
    settle(shard, client)
    assert names(shard, client) == {"u"}


def test_without_new_topics_there_is_no_search_before_the_interval_is_over() -> None:
    named = {**NAMED, "group.consumer.regex.refresh.interval.ms": 30_000}
    shard = Shard({"t1": 2}, named)
    client = member(shard, "a", "t.*")
    settle(shard, client)
    searched_ms = shard.state.resolved["t.*"].timestamp_ms
    shard.wait(SEARCH_APART_MS)
    settle(shard, client)
    assert shard.state.resolved["t.*"].timestamp_ms == searched_ms
    shard.wait(30_000)
    settle(shard, client)
    assert shard.state.resolved["t.*"].timestamp_ms > searched_ms


def test_a_search_whose_result_was_refused_is_done_again() -> None:
    shard = Shard({"t1": 2}, NAMED)
    client = member(shard, "a", "", "t1")
    settle(shard, client)
    client.topics, client.regex = [], "t.*"
    client.beat(is_full=True)
    shard.fail_over()  # the search is lost with the coordinator
    settle(shard, client)
    shard.wait(SEARCH_APART_MS)
    settle(shard, client)
    assert names(shard, client) == {"t1"}


def test_a_refused_result_is_found_again() -> None:
    shard = Shard({"t1": 2}, NAMED)
    client = Client(shard, "a", [], "t.*")
    settle_once = shard._tick
    shard._tick = lambda: None  # type: ignore[method-assign]
    client.beat()
    shard.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    settle_once()
    shard._tick = settle_once  # type: ignore[method-assign]
    assert not shard.state.resolved
    settle(shard, client)
    assert names(shard, client) == {"t1"}


def test_an_expression_goes_with_its_last_member() -> None:
    shard = Shard({"t1": 2}, NAMED)
    one, other = member(shard, "a", "t.*"), member(shard, "b", "t.*")
    settle(shard, one, other)
    one.leave()
    assert shard.state.resolved.keys() == {"t.*"}
    other.leave()
    assert not shard.state.resolved
    assert not shard.state.is_subscribed_to("t1")
