"""Share groups: members, share sessions, records that are acquired and acknowledged, bad input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from moldau.ids import ZERO_UUID
from moldau.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from moldau.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from moldau.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from moldau.protocol.messages.share_fetch import (
    AcknowledgementBatch as FetchAcknowledgement,
)
from moldau.protocol.messages.share_fetch import (
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from moldau.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from moldau.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.differential.group_requests import coordinated
from tests.differential.requests import batch, new_settings
from tests.differential.talk import Talk, versions

SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.delivery.count.limit": "2",
    "group.share.max.size": "2",
    "group.share.max.share.sessions": "3",
}
GROUP = "mailer"
GROUP_RESOURCE = 32
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Said = tuple[int, int, Sequence[int]]


def beat(member: str, epoch: int, *topics: str, **more: Any) -> ShareGroupHeartbeatRequest:
    fields: dict[str, Any] = {"group_id": GROUP, **more}
    names = list(topics) if topics else None
    return ShareGroupHeartbeatRequest(
        member_id=member, member_epoch=epoch, subscribed_topic_names=names, **fields
    )


def describe(*groups: str) -> ShareGroupDescribeRequest:
    return ShareGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)


def fetch(topic_id: bytes, member: str, epoch: int, *said: Said, **more: Any) -> ShareFetchRequest:
    batches = [
        FetchAcknowledgement(first_offset=first, last_offset=last, acknowledge_types=list(kinds))
        for first, last, kinds in said
    ]
    partition = FetchPartition(
        partition_index=more.pop("partition", 0), acknowledgement_batches=batches
    )
    topics = [FetchTopic(topic_id=topic_id, partitions=[partition])]
    fields: dict[str, Any] = {
        "group_id": GROUP,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_records": 100,
        "batch_size": 100,
        "topics": topics,
        "forgotten_topics_data": [],
        **more,
    }
    return ShareFetchRequest(member_id=member, share_session_epoch=epoch, **fields)


def acknowledge(
    topic_id: bytes, member: str, epoch: int, *said: Said, **more: Any
) -> ShareAcknowledgeRequest:
    batches = [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(kinds))
        for first, last, kinds in said
    ]
    partition = AcknowledgePartition(
        partition_index=more.pop("partition", 0), acknowledgement_batches=batches
    )
    fields: dict[str, Any] = {"group_id": GROUP, **more}
    return ShareAcknowledgeRequest(
        member_id=member,
        share_session_epoch=epoch,
        topics=[AcknowledgeTopic(topic_id=topic_id, partitions=[partition])],
        **fields,
    )


async def joined(talk: Talk, member: str) -> None:
    """The member has its partitions, and their share partitions are loaded, when this returns."""
    epoch = 0

    async def has_partitions() -> bool:
        nonlocal epoch
        names = ("t",) if epoch == 0 else ()
        answer = await talk.send(beat(member, epoch, *names), ShareGroupHeartbeatResponse)
        if answer.error_code:
            return False
        epoch = answer.member_epoch
        return bool(answer.assignment and answer.assignment.topic_partitions)

    await talk.until(has_partitions)


async def loaded(talk: Talk, topic_id: bytes) -> None:
    """The share partitions are loaded when this returns, and their records are free again after one
    delivery. The session stays open: ours ends a share partition that no member reads."""
    both = [FetchPartition(partition_index=each, acknowledgement_batches=[]) for each in range(2)]
    topics = [FetchTopic(topic_id=topic_id, partitions=both)]
    found: dict[int, AcknowledgementBatch] = {}
    epoch = 0

    async def has_records() -> bool:
        nonlocal epoch, topics
        request = fetch(topic_id, "loader", epoch, topics=topics, max_wait_ms=500, min_bytes=1)
        answer = await talk.send(request, ShareFetchResponse)
        epoch, topics = epoch + 1, []
        for row in answer.responses[0].partitions if answer.responses else ():
            if acquired := row.acquired_records:
                found[row.partition_index] = AcknowledgementBatch(
                    first_offset=acquired[0].first_offset,
                    last_offset=acquired[-1].last_offset,
                    acknowledge_types=[RELEASE],
                )
        return len(found) == len(both)

    await talk.until(has_records)
    freed = acknowledge(topic_id, "loader", epoch)
    freed.topics[0].partitions = [
        AcknowledgePartition(partition_index=partition, acknowledgement_batches=[batch])
        for partition, batch in found.items()
    ]
    await talk.send(freed, ShareAcknowledgeResponse)


async def scenario(talk: Talk) -> None:
    topic_id = await talk.topic("t", 2)
    await coordinated(talk)
    key = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{'A' * 22}:0"])

    async def has_coordinator() -> bool:
        found = await talk.send(key, FindCoordinatorResponse)
        return not found.coordinators[0].error_code

    await talk.until(has_coordinator)
    settings = new_settings(GROUP, share_auto_offset_reset="earliest")
    settings.resources[0].resource_type = GROUP_RESOURCE
    await talk.send(settings, IncrementalAlterConfigsResponse)
    await members(talk)
    await sessions(talk, topic_id)
    await joined(talk, "a")
    await talk.write("t", batch(10))
    await talk.write("t", batch(4), index=1)
    await loaded(talk, topic_id)
    await records(talk, topic_id)
    await refusals(talk, topic_id)
    await offsets(talk)


async def offsets(talk: Talk) -> None:
    """Where groups stand, and how that is changed."""
    every = versions(DescribeShareGroupOffsetsRequest)
    await talk.ask("offsets while it has members", alter(GROUP, ("t", 0, 3)))
    await talk.ask("delete offsets while it has members", delete(GROUP, "t"))
    await talk.ask("lag", describe_offsets((GROUP, {"t": [0, 1]})), every)
    await talk.ask("lag of all", describe_offsets((GROUP, None)), 1)
    missing = {"none": [0], "t": [9]}
    await talk.ask("lag of what is not there", describe_offsets((GROUP, missing)), 1)
    await talk.ask("lag of an unknown group", describe_offsets(("nobody", {"t": [0]})), 1)
    await talk.ask("all of an unknown group", describe_offsets(("nobody", None)), 1)
    await talk.ask("alter a group that is not there", alter("fresh", ("t", 0, 5)))
    await talk.ask("where it stands", describe_offsets(("fresh", {"t": [0]})), 1)
    await talk.ask("alter without a group", alter("", ("t", 0, 5)))
    await talk.ask("alter what is not there", alter("fresh", ("none", 0, 5), ("t", 7, 5)))
    await talk.ask("alter again", alter("fresh", ("t", 0, 2)))
    await talk.ask("where it stands then", describe_offsets(("fresh", {"t": [0]})), 1)
    await talk.ask("delete offsets without a group", delete("", "t"))
    await talk.ask("delete offsets of an unknown group", delete("nobody", "t"))
    await talk.ask("delete offsets that are not there", delete("fresh", "none"))
    await talk.ask("delete offsets", delete("fresh", "t"))
    await talk.ask("where it stands after that", describe_offsets(("fresh", {"t": [0]})), 1)
    await talk.ask("delete groups", DeleteGroupsRequest(groups_names=["fresh"]), 2)
    await talk.ask("delete a group with members", DeleteGroupsRequest(groups_names=[GROUP]), 2)


def describe_offsets(
    *groups: tuple[str, dict[str, list[int]] | None],
) -> DescribeShareGroupOffsetsRequest:
    return DescribeShareGroupOffsetsRequest(
        groups=[
            DescribeShareGroupOffsetsRequestGroup(
                group_id=group,
                topics=None
                if topics is None
                else [
                    DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
            )
            for group, topics in groups
        ]
    )


def alter(group: str, *places: tuple[str, int, int]) -> AlterShareGroupOffsetsRequest:
    return AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(
                        partition_index=index, start_offset=start
                    )
                ],
            )
            for name, index, start in places
        ],
    )


def delete(group: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(
        group_id=group,
        topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
    )


async def members(talk: Talk) -> None:
    await talk.ask("no member id", beat("", 0, "t"))
    await talk.ask("a long member id", beat("m" * 37, 0, "t"))
    await talk.ask("no group", beat("a", 0, "t", group_id=""))
    await talk.ask("an empty rack", beat("a", 0, "t", rack_id=""))
    await talk.ask("joins without topics", beat("a", 0))
    await talk.ask("an epoch below -1", beat("a", -2, "t"))
    await talk.ask("stays in an unknown group", beat("a", 3, group_id="nobody"))
    await talk.ask("leaves an unknown group", beat("a", -1, group_id="nobody"))
    await talk.ask("joins", beat("a", 0, "t"))
    await talk.ask("an epoch ahead", beat("a", 99))
    await talk.ask("an unknown member", beat("x", 2))
    await talk.ask("an unknown member leaves", beat("x", -1))
    await talk.ask("joins for a topic that does not exist", beat("b", 0, "none"))
    await talk.ask("one member too many", beat("c", 0, "t"))
    await talk.ask("leaves", beat("b", -1))
    await talk.ask("describe nothing known", describe("nobody", ""))


async def sessions(talk: Talk, topic_id: bytes) -> None:
    await talk.ask("fetch without a session", fetch(topic_id, "a", 1), 1)
    await talk.ask("end no session", fetch(topic_id, "a", -1), 1)
    await talk.ask("no member id of a fetch", fetch(topic_id, "", 0), 1)
    await talk.ask("a long member id of a fetch", fetch(topic_id, "m" * 37, 0), 1)
    await talk.ask("no group of a fetch", fetch(topic_id, "a", 0, group_id=None), 1)
    await talk.ask("acknowledge at once", fetch(topic_id, "a", 0, (0, 0, [ACCEPT])), 1)
    await talk.ask("acknowledge without a session", acknowledge(topic_id, "a", 1), 1)
    await talk.ask("acknowledge with the first epoch", acknowledge(topic_id, "a", 0), 1)


async def records(talk: Talk, topic_id: bytes) -> None:
    every = (1, 2)
    for version in every:
        member = f"m{version}"
        await talk.ask(f"records {version}", fetch(topic_id, member, 0), version)
        await talk.ask(f"nothing more {version}", fetch(topic_id, member, 1), version)
        await talk.ask(
            f"release all {version}", acknowledge(topic_id, member, 2, (0, 9, [RELEASE])), version
        )
        await talk.ask(f"a wrong epoch {version}", fetch(topic_id, member, 2), version)
        await talk.ask(f"end {version}", fetch(topic_id, member, -1, topics=[]), version)
    # The limit is two deliveries, and the loader had one: all of partition 0 is archived now.
    one = {"partition": 1}
    await talk.ask("of the other partition", fetch(topic_id, "a", 0, **one))
    await talk.ask("accept two", fetch(topic_id, "a", 1, (0, 1, [ACCEPT]), **one))
    await talk.ask("accept them again", acknowledge(topic_id, "a", 2, (0, 1, [ACCEPT]), **one))
    await talk.ask("reject one", acknowledge(topic_id, "a", 3, (2, 2, [REJECT]), **one))
    renewed = {**one, "is_renew_ack": True}
    await talk.ask("renew one", acknowledge(topic_id, "a", 4, (3, 3, [RENEW]), **renewed), 2)
    nothing = {**renewed, "max_bytes": 0, "max_records": 0}
    await talk.ask("renew in a fetch", fetch(topic_id, "a", 5, (3, 3, [RENEW]), **nothing), 2)
    await talk.ask("renew and fetch", fetch(topic_id, "a", 6, (3, 3, [RENEW]), **renewed), 2)
    await talk.ask("the last one", acknowledge(topic_id, "a", 6, (3, 3, [ACCEPT]), **one))
    await talk.ask("end by an acknowledgement", acknowledge(topic_id, "a", -1, **one))


async def refusals(talk: Talk, topic_id: bytes) -> None:
    await talk.write("t", batch(6))
    await talk.ask("six more", fetch(topic_id, "b", 0))
    bad: dict[str, list[Said]] = {
        "backwards": [(12, 11, [ACCEPT])],
        "overlapping": [(10, 12, [ACCEPT]), (12, 13, [ACCEPT])],
        "out of order": [(12, 13, [ACCEPT]), (10, 11, [ACCEPT])],
        "too few types": [(10, 12, [ACCEPT, ACCEPT])],
        "no types": [(10, 12, [])],
        "an unknown type": [(10, 12, [9])],
        "a negative type": [(10, 12, [-1])],
        "renews without saying so": [(10, 12, [RENEW])],
        "behind the acquired": [(14, 20, [ACCEPT])],
        "far behind the acquired": [(50, 60, [ACCEPT])],
    }
    epoch = 1
    for label, said in bad.items():
        await talk.ask(label, acknowledge(topic_id, "b", epoch, *said))
        epoch += 1
    await talk.ask("another's records", fetch(topic_id, "c", 0))
    await talk.ask("acknowledge another's", acknowledge(topic_id, "c", 1, (10, 15, [ACCEPT])))
    await talk.ask("an unknown topic", acknowledge(ZERO_UUID, "b", epoch, (0, 0, [ACCEPT])))
    await talk.ask("an unknown partition", acknowledge(topic_id, "b", epoch + 1, partition=7))
    await talk.ask("a partition that is not read", acknowledge(topic_id, "d", 1, (0, 0, [1])))
    await talk.ask("fetch an unknown topic", fetch(ZERO_UUID, "c", 2))
    await talk.ask("fetch an unknown partition", fetch(topic_id, "c", 3, partition=9))
    forgotten = [ForgottenTopic(topic_id=ZERO_UUID, partitions=[0])]
    await talk.ask("forget it", fetch(topic_id, "c", 4, forgotten_topics_data=forgotten))
    await talk.ask("release and accept", acknowledge(topic_id, "b", epoch + 2, (10, 12, [2, 1, 3])))
    await talk.ask("a released one", fetch(topic_id, "c", 5))
    await talk.send(fetch(topic_id, "loader", -1, topics=[]), ShareFetchResponse)
    await talk.ask("a third session", fetch(topic_id, "d", 0))
    await talk.ask("one session too many", fetch(topic_id, "e", 0))
