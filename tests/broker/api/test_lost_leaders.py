"""Metadata about a leader that has just been lost: when it is answered, and with which brokers."""

from __future__ import annotations

from typing import Any

from moldau.broker.api.metadata import REFRESH_MS
from moldau.broker.replication.lost_brokers import FENCED_MS, LOST_MS
from moldau.broker.settings.creation import auto_create_topics_enable
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.broker.api.serving import Sent, Serving, serving
from tests.broker.controller.cluster import topic


def ask_for(at: Serving, *names: str, on: Any = None) -> Sent:
    """A request for these topics, on a connection of its own unless one is given."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in names])
    sent = Sent(request, MetadataRequest.spec.versions.last, at.runtime, "PLAINTEXT")
    if on is not None:
        sent.connection = on
    at.service.serve(sent)
    return sent


def brokers_in(sent: Sent) -> list[int]:
    (response,) = sent.answers
    assert isinstance(response, MetadataResponse)
    return [each.node_id for each in response.brokers]


def leaders_in(sent: Sent) -> dict[str | None, int]:
    (response,) = sent.answers
    assert isinstance(response, MetadataResponse)
    return {each.name: each.partitions[0].leader_id for each in response.topics}


def three_brokers(at: Serving) -> None:
    """Brokers 1, 2 and 3, and a topic led by 1 and one led by 2."""
    for broker_id in (2, 3):
        at.cluster.join(broker_id)
    ours = topic("ours", placed={0: [1, 2, 3]})
    theirs = topic("theirs", placed={0: [2, 1, 3]})
    assert [each.error_code for each in at.cluster.create(ours, theirs)] == [0, 0]


def fence(at: Serving, broker_id: int) -> None:
    """As the controller and the server do."""
    at.cluster.beat(broker_id, want_fence=True)
    at.node.lost_brokers.on_fenced(broker_id, at.now_ms)
    at.replicas.purgatory.moved(at.node.lost_brokers)


@serving()
async def test_an_answer_waits_until_the_lost_leader_is_fenced(at: Serving) -> None:
    three_brokers(at)
    at.node.lost_brokers.on_lost(2, at.now_ms)
    waiting, other = ask_for(at, "theirs"), ask_for(at, "ours")
    assert leaders_in(other) == {"ours": 1}
    await at.pass_ms(70)
    assert not waiting.answers
    fence(at, 2)
    await at.pass_ms(1)
    assert leaders_in(waiting) == {"theirs": 1}
    assert leaders_in(ask_for(at, "theirs")) == {"theirs": 1}


@serving()
async def test_an_answer_waits_until_the_lost_leader_is_back(at: Serving) -> None:
    three_brokers(at)
    at.node.lost_brokers.on_lost(2, at.now_ms)
    waiting = ask_for(at, "theirs")
    await at.pass_ms(40)
    assert not waiting.answers
    assert at.node.lost_brokers.on_connected(2)
    at.replicas.purgatory.moved(at.node.lost_brokers)
    await at.pass_ms(1)
    assert leaders_in(waiting) == {"theirs": 2}


@serving()
async def test_an_answer_waits_no_longer_than_a_second_for_a_lost_leader(at: Serving) -> None:
    three_brokers(at)
    began_ms = at.now_ms
    at.node.lost_brokers.on_lost(2, began_ms)
    waiting = ask_for(at, "theirs")
    await waiting.answered.wait()
    assert leaders_in(waiting) == {"theirs": 2}
    assert LOST_MS <= waiting.answered_ms - began_ms <= LOST_MS + 2
    assert leaders_in(ask_for(at, "theirs")) == {"theirs": 2}
    assert not len(at.replicas.purgatory)


@serving()
async def test_a_refresh_hears_of_a_loss_that_comes_right_after_it(at: Serving) -> None:
    """The client loses the leader a moment before this node does."""
    three_brokers(at)
    first = ask_for(at, "theirs")
    assert leaders_in(first) == {"theirs": 2}
    refresh = ask_for(at, "theirs", on=first.connection)
    await at.pass_ms(REFRESH_MS // 2)
    at.node.lost_brokers.on_lost(2, at.now_ms)
    await at.pass_ms(2 * REFRESH_MS)
    assert not refresh.answers
    fence(at, 2)
    await at.pass_ms(1)
    assert leaders_in(refresh) == {"theirs": 1}
    again = ask_for(at, "theirs", on=first.connection)
    await again.answered.wait()
    assert leaders_in(again) == {"theirs": 1}


@serving()
async def test_a_fenced_broker_stays_among_the_brokers_for_a_moment(at: Serving) -> None:
    three_brokers(at)
    fence(at, 2)
    assert brokers_in(ask_for(at, "theirs")) == [1, 2, 3]
    await at.pass_ms(FENCED_MS)
    assert brokers_in(ask_for(at, "theirs")) == [1, 3]


@serving()
async def test_a_request_that_waits_creates_a_missing_topic_once(at: Serving) -> None:
    assert at.node.settings[auto_create_topics_enable]
    three_brokers(at)
    at.node.lost_brokers.on_lost(2, at.now_ms)
    waiting = ask_for(at, "theirs", "new")
    await at.pass_ms(5)
    fence(at, 2)
    at.cluster.now_ms = at.now_ms  # the request's deadline counts by the controller's clock
    await waiting.answered.wait()
    created = [each for each in at.channel.asked if isinstance(each, CreateTopicsRequest)]
    assert [[each.name for each in request.topics] for request in created] == [["new"]]


@serving()
async def test_a_client_that_is_gone_waits_for_no_leader(at: Serving) -> None:
    three_brokers(at)
    at.node.lost_brokers.on_lost(2, at.now_ms)
    waiting = ask_for(at, "theirs")
    assert len(at.replicas.purgatory) == 1
    at.service.closed(waiting.connection)
    assert not len(at.replicas.purgatory)
