"""Offsets that an open transaction may change still: who requires stable ones is told so (KIP-447),
everybody else hears what is committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from moldau.broker.coordinator.group.coordinator import OFFSETS_TOPIC
from moldau.broker.coordinator.group.fetches import fetch_offsets
from moldau.broker.coordinator.group.groups import Groups
from moldau.broker.coordinator.outcome import LogRecord, Outcome
from moldau.broker.log.producer_state import Origin
from moldau.broker.server import Broker
from moldau.errors.codes import ErrorCode
from moldau.protocol.messages.offset_commit import OffsetCommitResponse
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from moldau.protocol.schemas.control_records import EndTxnMarker
from moldau.protocol.schemas.coordinator_log import GROUP_LOG
from moldau.protocol.schemas.group_log import OffsetCommitKey, OffsetCommitValue
from moldau.records import ControlType, Producer, encode_batch, encode_control_batch
from moldau.runtime import Runtime
from tests.broker.coordinator.table import Table
from tests.broker.server.houses import house
from tests.broker.server.loaded_groups import coordinated
from tests.broker.server.wire import Wire
from tests.differential import group_requests
from tests.differential.talk import versions
from tests.runtime.arena import play

PRODUCER = 77
NONE = (ErrorCode.NONE, -1, -1, "")
UNSTABLE = (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1, -1, "")

Told = dict[tuple[str, int], tuple[int, int, int, str]]
"""By topic and partition: the error, the offset, its epoch, its metadata."""


def committed(offset: int) -> tuple[int, int, int, str]:
    return (ErrorCode.NONE, offset, 3, f"at {offset}")


def record(topic: str, partition: int, offset: int, group: str = "g") -> LogRecord:
    return LogRecord(
        OffsetCommitKey(group=group, topic=topic, partition=partition),
        OffsetCommitValue(
            offset=offset, leader_epoch=3, metadata=f"at {offset}", commit_timestamp=0
        ),
        3,
    )


def tell(
    groups: Groups,
    wanted: Mapping[str, Sequence[int]] | None,
    group: str = "g",
    *,
    require_stable: bool,
) -> Told:
    """What OffsetFetch of a group brings; `wanted`: None for all."""
    topics = None
    if wanted is not None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(indexes))
            for name, indexes in wanted.items()
        ]
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
    answer = fetch_offsets(groups, asked, require_stable=require_stable)
    assert answer.error_code == ErrorCode.NONE
    return {
        (topic.name, each.partition_index): (
            each.error_code,
            each.committed_offset,
            each.committed_leader_epoch,
            each.metadata or "",
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def table() -> Table:
    """Committed are t-0, t-1 and u-0, each at 5; a transaction has 9 for t-0, and for t-2, which
    has none else."""
    at = Table()
    at.do(Outcome((record("t", 0, 5), record("t", 1, 5), record("u", 0, 5))))
    at.do(Outcome((record("t", 0, 9), record("t", 2, 9))), PRODUCER)
    return at


def test_what_is_pending_is_unstable_for_who_requires_stable_offsets() -> None:
    at = table()
    asked = {"t": [0, 2]}
    for groups in (at.groups, at.reloaded()):
        assert tell(groups, asked, require_stable=True) == {("t", 0): UNSTABLE, ("t", 2): UNSTABLE}
        told = tell(groups, asked, require_stable=False)
        assert told == {("t", 0): committed(5), ("t", 2): NONE}


def test_nothing_else_of_the_group_is_unstable() -> None:
    at = table()
    asked = {"t": [1, 3], "u": [0, 2]}
    expected = {("t", 1): committed(5), ("t", 3): NONE, ("u", 0): committed(5), ("u", 2): NONE}
    for require_stable in (False, True):
        assert tell(at.groups, asked, require_stable=require_stable) == expected


def test_nothing_of_another_group_is_unstable() -> None:
    at = table()
    at.do(Outcome((record("t", 0, 6, "h"),)))
    expected = {("t", 0): committed(6), ("t", 2): NONE}
    assert tell(at.groups, {"t": [0, 2]}, "h", require_stable=True) == expected
    assert tell(at.groups, None, "h", require_stable=True) == {("t", 0): committed(6)}


def test_all_that_is_committed_is_told_with_what_of_it_is_unstable() -> None:
    """As Kafka does, which does not name what is only pending."""
    at = table()
    others = {("t", 1): committed(5), ("u", 0): committed(5)}
    stable = tell(at.groups, None, require_stable=True)
    assert stable == {("t", 0): UNSTABLE, **others}
    assert tell(at.groups, None, require_stable=False) == {("t", 0): committed(5), **others}


@pytest.mark.parametrize("is_commit", [True, False])
def test_when_the_transaction_has_ended_all_is_stable(is_commit: bool) -> None:
    at = table()
    at.groups.replay_end(PRODUCER, is_commit=is_commit)
    others = {("t", 1): committed(5), ("u", 0): committed(5)}
    ended = {("t", 0): committed(9), ("t", 2): committed(9)} if is_commit else {}
    for require_stable in (False, True):
        told = tell(at.groups, None, require_stable=require_stable)
        assert told == {("t", 0): committed(5), **others, **ended}
        told = tell(at.groups, {"t": [2]}, require_stable=require_stable)
        assert told == {("t", 2): committed(9) if is_commit else NONE}


def test_an_offset_is_unstable_until_the_last_transaction_that_has_it_ends() -> None:
    at = table()
    at.do(Outcome((record("t", 0, 8),)), PRODUCER + 1)
    at.groups.replay_end(PRODUCER, is_commit=True)
    asked = {"t": [0, 2]}
    expected = {("t", 0): UNSTABLE, ("t", 2): committed(9)}
    assert tell(at.groups, asked, require_stable=True) == expected

    at.groups.replay_end(PRODUCER + 1, is_commit=False)
    expected = {("t", 0): committed(9), ("t", 2): committed(9)}
    assert tell(at.groups, asked, require_stable=True) == expected


def test_a_commit_beside_a_transaction_makes_nothing_stable() -> None:
    at = table()
    at.do(Outcome((record("t", 0, 7),)))
    assert tell(at.groups, {"t": [0]}, require_stable=True) == {("t", 0): UNSTABLE}
    assert tell(at.groups, {"t": [0]}, require_stable=False) == {("t", 0): committed(7)}


# A whole broker, over a log that Apache Kafka could have written.


def append(broker: Broker, batches: Iterable[bytearray]) -> None:
    """As the transaction coordinator does. The shard does not hear of it: it is read when the log
    is opened next."""
    log = broker.node.replicas.partition(OFFSETS_TOPIC, 0).log
    for batch in batches:
        log.append_as_leader(batch, 0, 0, origin=Origin.COORDINATOR)


def pending(*records: LogRecord) -> Iterable[bytearray]:
    """A batch for each; Kafka's coordinators number none of them."""
    for each in records:
        assert each.value is not None
        row = (0, GROUP_LOG.encode_key(each.key), GROUP_LOG.encode_value(each.value, 3), ())
        yield encode_batch([row], producer=Producer(PRODUCER, 0, 0, True))


def marker(kind: ControlType) -> bytearray:
    value = b"\0\0" + EndTxnMarker(coordinator_epoch=0).encode(0)
    return encode_control_batch([(kind, value)], 0, producer=Producer(PRODUCER, 0, -1, True))


async def fetched(wire: Wire, version: int, topic_id: bytes, *, stable: bool) -> Told:
    """Two partitions of `t`, or all from version 2 on: the same."""
    told: list[Told] = []
    for wanted in (None, {"t": [0, 1]}) if version > 1 else ({"t": [0, 1]},):
        request = group_requests.fetch_offsets({"g": wanted}, {"t": topic_id}, stable=stable)
        answer = await wire.ask(request(version), OffsetFetchResponse, version)
        topics = answer.topics if version < 8 else answer.groups[0].topics
        told.append(
            {
                ("t", each.partition_index): (
                    each.error_code,
                    each.committed_offset,
                    each.committed_leader_epoch if version >= 5 else 0,
                    each.metadata or "",
                )
                for topic in topics
                for each in topic.partitions
            }
        )
    assert all(each == told[0] for each in told)
    return told[0]


async def check_every_version(wire: Wire, unstable: set[int], offsets: Mapping[int, int]) -> None:
    topic_id = await wire.topic_id("t")
    for version in versions(OffsetFetchRequest):
        plain: Told = {
            ("t", index): (ErrorCode.NONE, offset, 0, "") for index, offset in offsets.items()
        }
        assert await fetched(wire, version, topic_id, stable=False) == plain, version
        if version >= 7:
            stable = {**plain, **{("t", index): UNSTABLE for index in unstable}}
            assert await fetched(wire, version, topic_id, stable=True) == stable, version


@pytest.mark.parametrize("kind", [ControlType.COMMIT, ControlType.ABORT])
def test_every_version_tells_of_a_log_with_an_open_transaction(kind: ControlType) -> None:
    """The flag came with version 7; before it nothing is unstable."""

    async def scenario(runtime: Runtime) -> None:
        one: dict[str, str] = {"offsets_topic_num_partitions": "1"}
        async with house(runtime) as at:
            async with at.open(**one) as (broker, wire):
                await wire.create("t", 2)
                await coordinated(wire)
                ids = {"t": await wire.topic_id("t")}
                request = group_requests.commit("g", {"t": {0: 5, 1: 6}}, ids)
                answer = await wire.ask(request(9), OffsetCommitResponse, 9)
                codes = [each.error_code for each in answer.topics[0].partitions]
                assert codes == [ErrorCode.NONE] * 2
                append(broker, pending(record("t", 0, 8), record("t", 0, 9)))
            async with at.open(**one) as (broker, wire):
                await coordinated(wire)
                await check_every_version(wire, {0}, {0: 5, 1: 6})
                append(broker, [marker(kind)])
            async with at.open(**one) as (_, wire):
                await coordinated(wire)
                is_commit = kind is ControlType.COMMIT
                topic_id = await wire.topic_id("t")
                told = await fetched(wire, 9, topic_id, stable=True)
                assert told["t", 0][:2] == (ErrorCode.NONE, 9 if is_commit else 5)
                assert told["t", 1][:2] == (ErrorCode.NONE, 6)
                assert await fetched(wire, 9, topic_id, stable=False) == told

    play("simulated", scenario)
