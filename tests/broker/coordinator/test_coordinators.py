"""The table of coordinators: what follows from one row."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest

from moldau.broker.api.node import Node
from moldau.broker.coordinator.coordinators import Coordinators
from moldau.broker.coordinator.group.coordinator import groups_kind
from moldau.broker.coordinator.kind import CoordinatorKind, KeyType
from moldau.broker.coordinator.outcome import LogRecord, Outcome, Ticket, answered
from moldau.broker.coordinator.running_shard import ShardSettings
from moldau.broker.server.coordinators import coordinator_node
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.metrics import Registry
from moldau.protocol.declare import LogKey, LogValue
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.heartbeat import HeartbeatResponse
from moldau.protocol.schemas.coordinator_log import SHARE_LOG
from moldau.protocol.schemas.share_log import ShareSnapshotKey
from moldau.records import Codec
from tests.broker.api.administered import Administered
from tests.broker.api.serving import Serving, serving

TOPIC = "__share_group_state"


class Tombs:
    """A shard that counts the records of its log."""

    is_settled = True

    def __init__(self) -> None:
        self.replayed = 0
        self.changed: list[str] = []

    def replay(
        self, offset: int, producer_id: int, key: LogKey, value: LogValue | None, now_ms: int
    ) -> None:
        self.replayed += 1

    def replay_end(self, producer_id: int, *, is_commit: bool) -> None: ...

    def settle(self, now_ms: int) -> Outcome | None: ...

    def next_deadline_ms(self) -> int | None: ...

    def on_tick(self, now_ms: int) -> Outcome:
        return Outcome()

    def on_topics_changed(
        self, changed: Collection[str], deleted: Collection[str], now_ms: int
    ) -> Iterable[Outcome]:
        self.changed += changed
        return ()

    def on_unloaded(self) -> tuple[Ticket, ...]:
        return ()


TOMBS = CoordinatorKind(
    KeyType.SHARE, SHARE_LOG, Tombs, lambda now: ShardSettings(Codec.NONE, 200, 9, -1)
)


def with_tombs(node: Node) -> Coordinators:
    """The server's table with another row."""
    return Coordinators(coordinator_node(node), (groups_kind(node.coordinator_node), TOMBS))


def share_key() -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=KeyType.SHARE, coordinator_keys=[f"a:{'A' * 22}:0"])


def only_groups(node: Node) -> Coordinators:
    """A table without the row."""
    return Coordinators(coordinator_node(node), (groups_kind(node.coordinator_node),))


def test_a_kind_without_a_row_has_no_coordinator() -> None:
    at = Administered(make_coordinators=only_groups)
    answer = at.ask(share_key(), FindCoordinatorResponse, 6)
    (found,) = answer.coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert found.error_message == "this broker has no coordinators of shares"
    assert at.channel.asked == []


def test_a_row_is_found_by_its_key_type_and_its_topic_is_created() -> None:
    at = Administered(
        make_coordinators=with_tombs, share__coordinator__state__topic__replication__factor="1"
    )
    (before,) = at.ask(share_key(), FindCoordinatorResponse, 6).coordinators
    assert before.error_message == f"{TOPIC} is being created"
    assert at.node.image.topics.by_name(TOPIC) is not None
    (found,) = at.ask(share_key(), FindCoordinatorResponse, 6).coordinators
    assert (found.error_code, found.node_id, found.host) == (0, 1, "here")


def test_the_servers_table_has_groups() -> None:
    at = Administered()
    assert at.node.coordinators.of_topic("__consumer_offsets") is at.node.groups
    assert at.node.coordinators.of_topic("orders") is None


@serving()
async def test_shards_of_a_row_load_decide_and_close(at: Serving) -> None:
    at.create(TOPIC, 1, cleanup__policy="delete")
    node = replace(coordinator_node(at.node), metrics=Registry())
    coordinators = Coordinators(node, (TOMBS,))
    coordinator = coordinators.of(KeyType.SHARE)
    heard: list[Any] = []
    written = LogRecord(ShareSnapshotKey(group_id="g", topic_id=bytes(16), partition=0))

    def write(shard: Tombs, now_ms: int) -> Outcome:
        done = HeartbeatResponse(error_code=shard.replayed)
        return answered(heard.append, done)._replace(records=(written,))

    with pytest.raises(KeyError):
        coordinators.of(KeyType.TRANSACTION)
    coordinator.submit("a:b:0", write, heard.append)
    coordinator.elect(0)
    while not list(coordinator.loaded()):
        await at.pass_ms(1)
    coordinator.submit("a:b:0", write, heard.append)
    coordinator.submit("a:b:0", write, heard.append)
    await at.pass_ms(1)
    coordinators.on_topics_changed(["orders"], ())
    ((index, shard),) = coordinator.loaded()
    assert (index, shard.replayed, shard.changed) == (0, 2, ["orders"])
    coordinators.close()
    coordinator.submit("a:b:0", write, heard.append)
    codes = [each.code if isinstance(each, KafkaError) else each.error_code for each in heard]
    assert codes == [ErrorCode.NOT_COORDINATOR, 0, 1, ErrorCode.NOT_COORDINATOR]
