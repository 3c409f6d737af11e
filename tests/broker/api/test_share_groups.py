"""Share groups through a broker's listener: join, fetch, acknowledge, time out, leave."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from moldau.broker.exposition import scrape
from moldau.broker.exposition.page import Page
from moldau.broker.share.persister import ShareKey
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from moldau.protocol.messages.delete_records import DeleteRecordsResponse
from moldau.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from moldau.protocol.messages.produce import ProduceResponse
from moldau.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from moldau.protocol.messages.share_fetch import AcknowledgementBatch as FetchAcknowledgement
from moldau.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from moldau.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from moldau.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.records import Codec, encode_batch
from moldau.records.codecs import USUAL_BYTES_MAX
from moldau.records.parts import PART_RECORDS
from tests.broker.api.requests import delete_records, produce
from tests.broker.api.serving import Sent, Serving, limit, serving
from tests.broker.api.share_group import GROUP, configure, coordinated, described
from tests.differential.requests import batch

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
UPGRADE, DOWNGRADE = 1, 2


async def beat(at: Serving, member: str, epoch: int, *topics: str, group: str = GROUP) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        subscribed_topic_names=list(topics) or None,
    )
    return await at.ask(request, ShareGroupHeartbeatResponse)


async def joined(at: Serving, member: str = "a") -> Any:
    """A member with its partitions."""
    answer = await beat(at, member, 0, "orders")
    while True:
        assert answer.error_code == 0, answer
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return answer
        await at.pass_ms(1000)
        answer = await beat(at, member, answer.member_epoch)


async def write(at: Serving, *values: bytes) -> None:
    answer = await at.ask(produce("orders", batch(len(values))), ProduceResponse, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


def fetching(
    topic_id: bytes,
    member: str,
    epoch: int,
    *said: tuple[int, int, Sequence[int]],
    **more: Any,
) -> ShareFetchRequest:
    batches = [
        FetchAcknowledgement(first_offset=first, last_offset=last, acknowledge_types=list(kinds))
        for first, last, kinds in said
    ]
    partition = FetchPartition(partition_index=0, acknowledgement_batches=batches)
    fields: dict[str, Any] = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_records": 500,
        "batch_size": 500,
        **more,
    }
    return ShareFetchRequest(
        group_id=GROUP,
        member_id=member,
        share_session_epoch=epoch,
        topics=[FetchTopic(topic_id=topic_id, partitions=[partition])],
        forgotten_topics_data=[],
        **fields,
    )


async def fetch(
    at: Serving,
    topic_id: bytes,
    member: str,
    epoch: int,
    *said: tuple[int, int, Sequence[int]],
    **more: Any,
) -> Any:
    """The one partition of the answer, or None."""
    answer = await at.ask(fetching(topic_id, member, epoch, *said, **more), ShareFetchResponse)
    assert answer.error_code == 0, (answer, at.lines[-3:])
    return answer.responses[0].partitions[0] if answer.responses else None


def acquired(row: Any) -> list[tuple[int, int, int]]:
    return [
        (each.first_offset, each.last_offset, each.delivery_count) for each in row.acquired_records
    ]


async def acknowledge(
    at: Serving, topic_id: bytes, member: str, epoch: int, *said: tuple[int, int, Sequence[int]]
) -> Any:
    batches = [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(kinds))
        for first, last, kinds in said
    ]
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
    request = ShareAcknowledgeRequest(
        group_id=GROUP,
        member_id=member,
        share_session_epoch=epoch,
        topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[partition])],
    )
    return await at.ask(request, ShareAcknowledgeResponse)


@serving()
async def test_a_member_reads_and_acknowledges(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one", b"two", b"three")
    row = await fetch(at, topic_id, "a", 0)
    assert acquired(row) == [(0, 2, 1)]
    assert len(row.records) > 0
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (-1, -1)
    answer = await acknowledge(at, topic_id, "a", 1, (0, 2, [ACCEPT]))
    assert answer.responses[0].partitions[0].error_code == 0
    told = answer.responses[0].partitions[0].current_leader
    assert (told.leader_id, told.leader_epoch) == (-1, -1), "0 is the id of a broker"
    assert await fetch(at, topic_id, "a", 2) is None
    await write(at, b"four")
    row = await fetch(at, topic_id, "a", 3)
    assert acquired(row) == [(3, 3, 1)]


async def answer_of(sent: Sent) -> Any:
    await sent.answered.wait()
    (answer,) = sent.answers
    return answer


@serving()
async def test_a_member_over_its_quota_waits_and_acquires_nothing(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    for _ in range(2):
        await at.ask(produce("orders", batch(1, size=8000)), ProduceResponse, 9)
    limit(at, "consumer_byte_rate", 1000)
    first = at.send(fetching(topic_id, "a", 0, max_bytes=1 << 20, max_records=1, batch_size=1))
    answer = await answer_of(first)
    assert acquired(answer.responses[0].partitions[0]) == [(0, 0, 1)]
    assert at.service.throttle(first, None) == 0, "within the window"
    second = at.send(fetching(topic_id, "a", 1, max_bytes=1 << 20))
    answer = await answer_of(second)
    assert acquired(answer.responses[0].partitions[0]) == [(1, 1, 1)]
    assert at.service.throttle(second, None) > 1000
    await write(at, b"three")
    third = at.send(fetching(topic_id, "a", 2, max_bytes=1 << 20))
    answer = await answer_of(third)
    assert answer.responses == []
    assert at.service.throttle(third, None) > 1000
    await at.pass_ms(20_000)
    fourth = at.send(fetching(topic_id, "a", 3, max_bytes=1 << 20))
    answer = await answer_of(fourth)
    assert acquired(answer.responses[0].partitions[0]) == [(2, 2, 1)]


@serving()
async def test_a_fetch_waits_for_records_and_sends_slices(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    assert acquired(await fetch(at, topic_id, "a", 0, max_wait_ms=100)) == []
    sent = at.send(fetching(topic_id, "a", 1, max_wait_ms=30_000))
    await at.pass_ms(100)
    assert not sent.answers
    await write(at, b"one")
    await sent.answered.wait()
    (answer,) = sent.answers
    assert isinstance(answer, ShareFetchResponse)
    assert acquired(answer.responses[0].partitions[0]) == [(0, 0, 1)]
    assert sent.has_slices


@serving()
async def test_released_records_go_to_a_member_that_waits(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at, "a")
    await joined(at, "b")
    await write(at, b"one", b"two")
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(0, 1, 1)]
    sent = at.send(fetching(topic_id, "b", 0, max_wait_ms=30_000))
    row = await fetch(at, topic_id, "a", 1, (0, 1, [ACCEPT, RELEASE]), max_records=0)
    assert row.acknowledge_error_code == 0
    await sent.answered.wait()
    (answer,) = sent.answers
    assert isinstance(answer, ShareFetchResponse)
    assert acquired(answer.responses[0].partitions[0]) == [(1, 1, 2)]


@serving()
async def test_a_lock_ends_by_itself(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one")
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(0, 0, 1)]
    row = await fetch(at, topic_id, "b", 0, max_wait_ms=60_000)
    assert acquired(row) == [(0, 0, 2)]
    late = await acknowledge(at, topic_id, "a", 1, (0, 0, [ACCEPT]))
    assert late.responses[0].partitions[0].error_code == ErrorCode.INVALID_RECORD_STATE


@serving()
async def test_a_closed_session_and_a_closed_connection_release(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one")
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(0, 0, 1)]
    await fetch(at, topic_id, "a", -1)
    sent = at.send(fetching(topic_id, "b", 0))
    await sent.answered.wait()
    (answer,) = sent.answers
    assert isinstance(answer, ShareFetchResponse)
    assert acquired(answer.responses[0].partitions[0]) == [(0, 0, 2)]
    at.service.closed(sent.connection)
    assert acquired(await fetch(at, topic_id, "c", 0)) == [(0, 0, 3)]


@serving()
async def test_share_partitions_end_with_the_last_session_of_their_group(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one")
    await fetch(at, topic_id, "a", 0)
    await fetch(at, topic_id, "b", 0, max_wait_ms=0)
    assert len(at.node.shares) == 1
    await fetch(at, topic_id, "a", -1)
    assert at.node.shares.get(ShareKey(GROUP, topic_id, 0)) is not None
    await fetch(at, topic_id, "b", -1)
    assert at.node.shares.get(ShareKey(GROUP, topic_id, 0)) is None
    assert acquired(await fetch(at, topic_id, "c", 0)) == [(0, 0, 2)]


@serving()
async def test_what_is_acknowledged_stays_so_in_a_new_leader_epoch(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one", b"two", b"three")
    await fetch(at, topic_id, "a", 0)
    await acknowledge(at, topic_id, "a", 1, (0, 0, [RELEASE]), (1, 1, [ACCEPT]))
    at.node.shares.close()
    row = await fetch(at, topic_id, "b", 0)
    assert acquired(row) == [(0, 0, 2), (2, 2, 1)]


@serving()
async def test_a_window_begins_behind_what_the_log_has_deleted(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one", b"two", b"three")
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(0, 2, 1)]
    await fetch(at, topic_id, "a", 1, (0, 0, [RELEASE]))
    at.node.shares.close()
    await at.ask(delete_records("orders", 2), DeleteRecordsResponse, 2)
    key = ShareKey(GROUP, topic_id, 0)
    share = at.node.shares.find(key, at.node.replicas.partition("orders", 0))
    assert share.window is not None
    assert share.window.start_offset == 2


@serving()
async def test_sessions_have_epochs(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)

    async def code(request: ShareFetchRequest) -> int:
        answer = await at.ask(request, ShareFetchResponse)
        return answer.error_code

    assert await code(fetching(topic_id, "a", 1)) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert await code(fetching(topic_id, "a", -1)) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert await code(fetching(topic_id, "a", 0, (0, 0, [1]))) == ErrorCode.INVALID_REQUEST
    assert await code(fetching(topic_id, "a", 0, max_wait_ms=0)) == 0
    assert await code(fetching(topic_id, "a", 2)) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert await code(fetching(topic_id, "", 0)) == ErrorCode.INVALID_REQUEST
    answer = await acknowledge(at, topic_id, "a", 0)
    assert answer.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


@serving()
async def test_acknowledgements_that_are_none_are_refused(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one", b"two", b"three")
    await fetch(at, topic_id, "a", 0)
    epoch = 0
    bad: list[list[tuple[int, int, list[int]]]] = [
        [(1, 0, [1])],
        [(0, 2, [1]), (1, 2, [1])],
        [(0, 2, [1, 1])],
        [(0, 2, [])],
        [(0, 2, [9])],
        [(0, 2, [RENEW])],
        [(2, 3, [1])],
    ]
    for said in bad:
        epoch += 1
        answer = await acknowledge(at, topic_id, "a", epoch, *said)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST, said
    answer = await acknowledge(at, topic_id, "a", epoch + 1, (0, 2, [ACCEPT]))
    assert answer.responses[0].partitions[0].error_code == 0


@serving()
async def test_a_group_is_described_and_listed(at: Serving) -> None:
    await coordinated(at)
    answer = await joined(at)
    request = ShareGroupDescribeRequest(
        group_ids=[GROUP, "unknown"], include_authorized_operations=False
    )
    described = await at.ask(request, ShareGroupDescribeResponse)
    known, unknown = described.groups
    assert (known.group_state, known.group_epoch) == ("Stable", answer.member_epoch)
    assert known.members[0].assignment.topic_partitions[0].partitions == [0]
    assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await beat(at, "a", -1)
    (known, _) = (await at.ask(request, ShareGroupDescribeResponse)).groups
    assert (known.group_state, known.members) == ("Empty", [])


async def offsets_of(at: Serving, group: str = GROUP) -> list[tuple[int, int]]:
    """The start offset and the lag of each partition of the group."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])
    answer = await at.ask(request, DescribeShareGroupOffsetsResponse)
    return [
        (each.start_offset, each.lag)
        for topic in answer.groups[0].topics
        for each in topic.partitions
    ]


@serving()
async def test_lag_counts_what_is_not_done(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one", b"two", b"three", b"four")
    await fetch(at, topic_id, "a", 0)
    assert await offsets_of(at) == [(0, 4)]
    await acknowledge(at, topic_id, "a", 1, (0, 0, [ACCEPT]), (2, 2, [REJECT]))
    assert await offsets_of(at) == [(1, 2)]


@serving()
async def test_offsets_of_a_group_without_a_name_are_refused(at: Serving) -> None:
    await coordinated(at)
    answer = await at.ask(described("", 0), DescribeShareGroupOffsetsResponse)
    assert answer.groups[0].error_code == ErrorCode.INVALID_GROUP_ID


@serving()
async def test_partitions_that_do_not_exist_have_no_offsets(at: Serving) -> None:
    await coordinated(at)
    wrong = (-1, -(2**31), 7, 2**31 - 1)
    answer = await at.ask(described(GROUP, *wrong), DescribeShareGroupOffsetsResponse)
    (topic,) = answer.groups[0].topics
    rows = [(each.partition_index, each.start_offset, each.lag) for each in topic.partitions]
    assert rows == [(each, -1, -1) for each in wrong]


@serving()
async def test_the_lag_of_any_start_offset_fits_its_field(at: Serving) -> None:
    await coordinated(at)
    await write(at, b"one")
    for start, lag in ((-(2**63), 2**63 - 1), (2**63 - 1, 1 - (2**63 - 1))):
        row = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=start)
        topic = AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[row])
        alter = AlterShareGroupOffsetsRequest(group_id=GROUP, topics=[topic])
        altered = await at.ask(alter, AlterShareGroupOffsetsResponse)
        assert altered.error_code == 0
        if altered.responses[0].partitions[0].error_code == 0:
            assert await offsets_of(at) == [(start, lag)]


@serving()
async def test_after_an_election_no_lag_is_reported_until_the_end_is_known(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one", b"two")
    await fetch(at, topic_id, "a", 0)
    at.begin_epoch("orders")
    at.send(produce("orders", batch(2), acks=1), 9)
    at.begin_epoch("orders")
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])
    answer = await at.ask(request, DescribeShareGroupOffsetsResponse)
    (row,) = answer.groups[0].topics[0].partitions
    assert (row.error_code, row.lag) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    page = Page()
    list(scrape.shares(page, at.node))
    assert "moldau_sharegroup_lag{" not in "".join(page.pieces())
    at.partition("orders").on_fetch(2, 4, 0, at.now_ms, -1)
    assert await offsets_of(at) == [(0, 4)]


@pytest.mark.parametrize("reset", ["latest", "by_duration:PT0.001S"])
def test_a_group_that_begins_at_the_end_waits_until_it_is_known(reset: str) -> None:
    @serving()
    async def run(at: Serving) -> None:
        topic_id = await coordinated(at)
        configure(at, **{"share.auto.offset.reset": reset})
        await joined(at)
        await write(at, b"one", b"two")
        at.begin_epoch("orders")
        at.send(produce("orders", batch(2), acks=1), 9)
        at.begin_epoch("orders")
        await at.pass_ms(1_000)
        row = await fetch(at, topic_id, "a", 0)
        assert row is None or not row.acquired_records
        at.partition("orders").on_fetch(2, 4, 0, at.now_ms, -1)
        await at.pass_ms(1)
        share = at.node.shares.get(ShareKey(GROUP, topic_id, 0))
        assert share is not None
        assert share.window is not None
        assert share.window.start_offset == 4

    run()


@serving()
async def test_a_group_that_begins_at_an_unknown_end_asks_another_leader_in_the_end(
    at: Serving,
) -> None:
    topic_id = await coordinated(at)
    configure(at, **{"share.auto.offset.reset": "latest"})
    await joined(at)
    at.begin_epoch("orders")
    at.send(produce("orders", batch(2), acks=1), 9)
    at.begin_epoch("orders")
    await fetch(at, topic_id, "a", 0)
    share = at.node.shares.get(ShareKey(GROUP, topic_id, 0))
    assert share is not None
    await at.pass_ms(40_000)
    assert share.error is not None
    assert share.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@serving()
async def test_a_reset_group_reads_again_and_a_deleted_one_begins_anew(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one", b"two")
    await fetch(at, topic_id, "a", 0)
    await acknowledge(at, topic_id, "a", 1, (0, 1, [ACCEPT]))
    row = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=1)
    alter = AlterShareGroupOffsetsRequest(
        group_id=GROUP,
        topics=[AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[row])],
    )
    refused = await at.ask(alter, AlterShareGroupOffsetsResponse)
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    await fetch(at, topic_id, "a", -1)
    await beat(at, "a", -1)
    altered = await at.ask(alter, AlterShareGroupOffsetsResponse)
    assert (altered.error_code, altered.responses[0].partitions[0].error_code) == (0, 0)
    assert await offsets_of(at) == [(1, 1)]
    await joined(at)
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(1, 1, 1)]
    await fetch(at, topic_id, "a", -1)
    await beat(at, "a", -1)
    deleted = await at.ask(DeleteGroupsRequest(groups_names=[GROUP]), DeleteGroupsResponse)
    assert deleted.results[0].error_code == 0
    assert await offsets_of(at) == []
    await joined(at)
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(0, 1, 1)]


def set_level(at: Serving, level: int, kind: int) -> None:
    """Finalize a level of the feature."""
    update = FeatureUpdateKey(feature="share.version", max_version_level=level, upgrade_type=kind)
    request = UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[update], validate_only=False)
    assert at.cluster.ask(request, UpdateFeaturesResponse, 1).error_code == 0


@serving()
async def test_share_groups_go_and_come_with_the_level_of_their_feature(at: Serving) -> None:
    topic_id = await coordinated(at)
    await joined(at)
    await write(at, b"one")
    set_level(at, 0, DOWNGRADE)
    describing = ShareGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False)
    for request, response in (
        (fetching(topic_id, "a", 0), ShareFetchResponse),
        (describing, ShareGroupDescribeResponse),
    ):
        answer: Any = await at.ask(request, response)
        code = getattr(answer, "error_code", None)
        if code is None:
            code = answer.groups[0].error_code
        assert code == ErrorCode.UNSUPPORTED_VERSION
    assert (await beat(at, "a", 1)).error_code == ErrorCode.UNSUPPORTED_VERSION
    set_level(at, 1, UPGRADE)
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(0, 0, 1)]
    set_level(at, 2, UPGRADE)
    await write(at, b"two")
    assert acquired(await fetch(at, topic_id, "a", 1)) == [(1, 1, 1)]


@serving(**{"group.coordinator.rebalance.protocols": "classic,consumer,share"})
async def test_share_groups_that_are_asked_for_need_no_level(at: Serving) -> None:
    topic_id = await coordinated(at)
    set_level(at, 0, DOWNGRADE)
    await joined(at)
    await write(at, b"one")
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(0, 0, 1)]


def releasing(topic_id: bytes, epoch: int, first: int, last: int, delay_ms: int) -> Any:
    batch = AcknowledgementBatch(
        first_offset=first, last_offset=last, acknowledge_types=[RELEASE], delay_ms=delay_ms
    )
    partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])
    return ShareAcknowledgeRequest(
        group_id=GROUP,
        member_id="a",
        share_session_epoch=epoch,
        topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[partition])],
    )


@serving()
async def test_a_delayed_release_is_kept_through_a_new_leader_epoch(at: Serving) -> None:
    topic_id = await coordinated(at)
    assert (await joined(at)).share_extensions == 1
    await write(at, b"one", b"two")
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(0, 1, 1)]
    answer = await at.ask(releasing(topic_id, 1, 0, 0, -2), ShareAcknowledgeResponse)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_REQUEST
    answer = await at.ask(releasing(topic_id, 2, 0, 0, 60_000), ShareAcknowledgeResponse)
    assert answer.responses[0].partitions[0].error_code == 0
    assert (await acknowledge(at, topic_id, "a", 3, (1, 1, [ACCEPT]))).error_code == 0
    at.node.shares.close()
    row = await fetch(at, topic_id, "a", 0, max_wait_ms=50_000)
    assert acquired(row) == []
    row = await fetch(at, topic_id, "a", 1, max_wait_ms=30_000)
    assert acquired(row) == [(0, 0, 2)]


@serving()
async def test_a_group_with_a_back_off_lets_records_rest(at: Serving) -> None:
    topic_id = await coordinated(at)
    configure(at, **{"share.retry.backoff": "20s"})
    await joined(at)
    await write(at, b"one")
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(0, 0, 1)]
    row = await fetch(at, topic_id, "a", 1, (0, 0, [RELEASE]), max_wait_ms=19_000)
    assert (row.acknowledge_error_code, acquired(row)) == (0, [])
    assert acquired(await fetch(at, topic_id, "a", 2, max_wait_ms=5_000)) == [(0, 0, 2)]


@serving()
async def test_records_wait_for_the_time_that_they_name(at: Serving) -> None:
    topic_id = await coordinated(at)
    configure(at, **{"share.deliver.at.enable": "true"})
    await joined(at)
    now_ms = at.node.runtime.clock.wall_ms()
    soon = datetime.fromtimestamp((now_ms + 20_000) / 1000, UTC).isoformat()
    rows: list[tuple[int, None, bytes, Any]] = [
        (now_ms, None, b"a", (("deliver-at", f"{now_ms + 60_000}".encode()),)),
        (now_ms, None, b"b", ()),
        (now_ms, None, b"c", (("deliver-at", soon.encode()),)),
        (now_ms, None, b"d", (("deliver-at", b"some day"),)),
        (now_ms, None, b"e", (("deliver-at", b"2999-12-31T12:00:00"),)),  # of which place?
    ]
    await at.ask(produce("orders", bytes(encode_batch(rows, 0))), ProduceResponse, 9)
    assert acquired(await fetch(at, topic_id, "a", 0)) == [(1, 1, 1), (3, 4, 1)]
    assert acquired(await fetch(at, topic_id, "a", 1, max_wait_ms=30_000)) == [(2, 2, 1)]
    at.node.shares.close()
    assert acquired(await fetch(at, topic_id, "a", 0, max_wait_ms=10_000)) == [(1, 4, 1)], (
        "what was not stored comes again, and the first one still waits"
    )
    row = await fetch(at, topic_id, "a", 1, (1, 4, [ACCEPT]), max_wait_ms=60_000)
    assert acquired(row) == [(0, 0, 1)]


@serving()
async def test_a_topic_that_no_share_group_reads_has_nothing_of_share_groups(at: Serving) -> None:
    topic_id = await coordinated(at, 2)
    await write(at, b"one")
    assert len(at.node.shares) == 0
    await joined(at)
    await fetch(at, topic_id, "a", 0)
    assert [(share.key.topic_id, share.key.partition) for share in at.node.shares] == [
        (topic_id, 0)
    ], "only what is read, and not the other partition"


def only_row(sent: Sent) -> Any:
    """The one partition of an answer to ShareFetch."""
    answer = sent.answers[0]
    assert isinstance(answer, ShareFetchResponse)
    return answer.responses[0].partitions[0]


LARGE = {
    "many records": bytes(
        encode_batch([(1, b"k", b"", ())] * (PART_RECORDS + 1), codec=Codec.ZSTD)
    ),
    "many bytes": bytes(
        encode_batch([(1, b"k", bytes(2 * USUAL_BYTES_MAX), ())], codec=Codec.GZIP)
    ),
}


@pytest.mark.parametrize("size", LARGE)
def test_others_are_served_while_the_times_of_a_large_batch_are_read(size: str) -> None:
    @serving()
    async def run(at: Serving) -> None:
        topic_id = await coordinated(at)
        configure(at, **{"share.deliver.at.enable": "true"})
        await joined(at)
        await write(at, b"small")
        await at.ask(produce("orders", LARGE[size]), ProduceResponse, 9)
        assert acquired(await fetch(at, topic_id, "a", 0)) == [(0, 0, 1)], "it does not wait"

        waiting = at.send(fetching(topic_id, "a", 1, max_wait_ms=60_000))
        other = at.send(produce("orders", batch(1)), 9)

        assert (len(waiting.answers), len(other.answers)) == (0, 1)
        await waiting.answered.wait()
        row = only_row(waiting)
        assert [each[0] for each in acquired(row)] == [1]

    run()


@serving()
async def test_who_waits_for_work_in_a_thread_hears_that_memory_is_short(at: Serving) -> None:
    def fail() -> None:
        raise MemoryError

    heard: asyncio.Future[KafkaError | None] = asyncio.get_running_loop().create_future()
    at.node.coordinator_node.in_thread(fail, heard.set_result)
    found = await heard
    assert isinstance(found, KafkaError)
    assert found.code is ErrorCode.UNKNOWN_SERVER_ERROR


@serving()
async def test_records_of_a_large_batch_wait_for_the_time_that_they_name(at: Serving) -> None:
    topic_id = await coordinated(at)
    configure(at, **{"share.deliver.at.enable": "true"})
    await joined(at)
    now_ms = at.node.runtime.clock.wall_ms()
    rest = [(now_ms, None, b"", ())] * PART_RECORDS
    late = (("deliver-at", f"{now_ms + 60_000}".encode()),)
    rows: Any = [*rest, (now_ms, None, b"z", late)]
    await at.ask(produce("orders", bytes(encode_batch(rows, 0))), ProduceResponse, 9)
    runs: list[tuple[int, int]] = []
    said: list[tuple[int, int, list[int]]] = []
    for epoch in range(4):
        row = await fetch(at, topic_id, "a", epoch, *said, max_records=9_000, max_wait_ms=90_000)
        runs += [(first, last) for first, last, _ in acquired(row)]
        said = [(*runs[-1], [ACCEPT])]
    assert runs == [(0, 1999), (2000, 3999), (4000, 4095), (4096, 4096)]
    assert at.node.runtime.clock.wall_ms() >= now_ms + 60_000


@serving()
async def test_others_are_served_while_a_group_looks_for_its_start(at: Serving) -> None:
    topic_id = await coordinated(at)
    configure(at, **{"share.auto.offset.reset": "by_duration:PT1H"})
    now_ms = at.node.runtime.clock.wall_ms()
    old, new = now_ms - 7_200_000, now_ms - 1_000
    rows: Any = [(old, b"k", bytes(2 * USUAL_BYTES_MAX), ()), (new, b"k", b"", ())]
    at.create("others")
    records = bytes(encode_batch(rows, codec=Codec.GZIP))
    sent = at.send(produce("orders", records), 9)
    await sent.answered.wait()
    await joined(at)

    waiting = at.send(fetching(topic_id, "a", 0, max_wait_ms=60_000))
    other = at.send(produce("others", batch(1)), 9)

    assert (len(waiting.answers), len(other.answers)) == (0, 1)
    await waiting.answered.wait()
    row = only_row(waiting)
    assert acquired(row) == [(1, 1, 1)]


@pytest.mark.parametrize("size", LARGE)
def test_others_are_served_while_a_dead_letter_of_a_large_batch_is_read(size: str) -> None:
    @serving()
    async def run(at: Serving) -> None:
        topic_id = await coordinated(at)
        at.create("dlq.orders")
        configure(at, **{"share.dlq.topic": "dlq.orders"})
        await joined(at)
        sent = at.send(produce("orders", LARGE[size]), 9)
        await sent.answered.wait()
        await fetch(at, topic_id, "a", 0, max_records=1, batch_size=1, share_acquire_mode=1)

        said = at.send(fetching(topic_id, "a", 1, (0, 0, [REJECT]), max_records=0, max_bytes=0))
        other = at.send(produce("orders", batch(1)), 9)

        assert (len(said.answers), len(other.answers)) == (0, 1)
        await said.answered.wait()
        assert only_row(said).acknowledge_error_code == 0
        assert at.partition("dlq.orders").log_end_offset == 1

    run()


@pytest.mark.parametrize(
    ("size", "kinds", "copies"),
    [
        pytest.param("many records", [REJECT, ACCEPT, REJECT], 2, id="two of one batch"),
        pytest.param("many bytes", [REJECT, REJECT], 2, id="one of each batch"),
    ],
)
def test_dead_letters_that_take_several_reads_are_written(
    size: str, kinds: list[int], copies: int
) -> None:
    @serving()
    async def run(at: Serving) -> None:
        topic_id = await coordinated(at)
        at.create("dlq.orders")
        configure(at, **{"share.dlq.topic": "dlq.orders"})
        await joined(at)
        for _ in range(2):
            await at.send(produce("orders", LARGE[size]), 9).answered.wait()
        count = len(kinds)
        strict = {"max_records": count, "batch_size": count, "share_acquire_mode": 1}
        row = await fetch(at, topic_id, "a", 0, max_bytes=8 * USUAL_BYTES_MAX, **strict)
        assert acquired(row)[-1][1] == count - 1

        said = fetching(topic_id, "a", 1, (0, count - 1, kinds), max_records=0, max_bytes=0)
        sent = at.send(said)
        await sent.answered.wait()

        assert only_row(sent).acknowledge_error_code == 0
        assert at.partition("dlq.orders").log_end_offset == copies

    run()
