"""Dead letters of share groups by Kafka's settings (KIP-1191), and what these settings may be.

Apache Kafka 4.4 is asked: it has them. A letter's time is when it was written, so of letters the
keys, values, headers and places are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moldau.broker.api.share_dead_letters import PREFIX
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from moldau.protocol.messages.fetch import FetchResponse
from moldau.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.protocol.messages.share_fetch import ShareFetchResponse
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from moldau.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from moldau.records import Codec, encode_batch, iter_records
from tests.broker.api.requests import fetch as read
from tests.broker.api.requests import want
from tests.differential.group_requests import coordinated
from tests.differential.requests import THEN
from tests.differential.scenarios.share_groups import (
    ACCEPT,
    GROUP_RESOURCE,
    REJECT,
    RELEASE,
    acknowledge,
    beat,
    fetch,
)
from tests.differential.talk import Talk

SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer,share",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.share.delivery.count.limit": "2",
    "num.partitions": "2",
}
BROKER, TOPIC = 4, 2
NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
ENABLE = "errors.deadletterqueue.group.enable"
AUTO = "errors.deadletterqueue.auto.create.topics.enable"
DLQ_PREFIX = "errors.deadletterqueue.topic.name.prefix"
Values = Mapping[str, str | None]


def altered(
    kind: int, name: str, values: Values, *, validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    """Settings of a resource; None deletes one."""
    configs = [
        AlterableConfig(name=key, config_operation=0 if value is not None else 1, value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


async def alter(talk: Talk, kind: int, name: str, **values: str | None) -> None:
    """Settings that are in force when this returns."""
    given = {key.replace("_", "."): value for key, value in values.items()}
    answer = await talk.send(altered(kind, name, given), IncrementalAlterConfigsResponse)
    assert not answer.responses[0].error_code, answer
    await talk.settled()


async def scenario(talk: Talk) -> None:
    await _settings(talk)
    topic_id = await talk.topic("t", 3)
    await coordinated(talk)
    key = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{'A' * 22}:0"])

    async def has_coordinator() -> bool:
        found = await talk.send(key, FindCoordinatorResponse)
        return not found.coordinators[0].error_code

    await talk.until(has_coordinator)
    update = FeatureUpdateKey(feature="share.version", max_version_level=2, upgrade_type=1)
    await talk.send(
        UpdateFeaturesRequest(feature_updates=[update], validate_only=False), UpdateFeaturesResponse
    )
    await talk.settled()
    await _used(talk, topic_id)


async def _settings(talk: Talk) -> None:
    names: tuple[str, ...] = ("dlq.a", "a", "__a", "_a", "", "dlq.a b", "x" * 300)
    for kind, resource, name, values in (
        (GROUP_RESOURCE, "g", NAME, names),
        (GROUP_RESOURCE, "g", COPY, ("true", "x")),
        (GROUP_RESOURCE, "g", "streams.assignor.name", ("sticky", "Sticky", "x", "")),
        (GROUP_RESOURCE, "g", "share.assignor.offload.enable", ("false", "x")),
        (GROUP_RESOURCE, "g", "consumer.assignor.offload.enable", ("false",)),
        (GROUP_RESOURCE, "g", "streams.assignor.offload.enable", ("false",)),
        (BROKER, "", AUTO, ("true", "x")),
        (BROKER, "", DLQ_PREFIX, ("", "__", "a b", "dlq.")),
        (BROKER, "", "group.streams.assignors", ("sticky", "x")),
    ):
        for value in values:
            request = altered(kind, resource, {name: value}, validate_only=True)
            await talk.ask(f"{name}={value[:9]!r}", request)
    await talk.ask("deleted", altered(GROUP_RESOURCE, "g", {NAME: None}, validate_only=True))
    for kind, resource, name in (
        (GROUP_RESOURCE, "g", NAME),
        (GROUP_RESOURCE, "g", COPY),
        (GROUP_RESOURCE, "g", "streams.assignor.name"),
        (GROUP_RESOURCE, "g", "share.assignor.offload.enable"),
        (BROKER, "1", AUTO),
        (BROKER, "1", DLQ_PREFIX),
    ):
        asked = DescribeConfigsResource(
            resource_type=kind, resource_name=resource, configuration_keys=[name]
        )
        described = DescribeConfigsRequest(resources=[asked], include_synonyms=True)
        await talk.ask(f"described: {name}", described)


class Member:
    """A member of a share group in one session."""

    def __init__(self, talk: Talk, topic_id: bytes, group: str, partition: int) -> None:
        self._talk = talk
        self._topic_id = topic_id
        self._group = group
        self._partition = partition
        self._epoch = 0

    async def join(self, reset: str = "earliest", **values: str | None) -> None:
        """Join a group with these settings."""
        await alter(
            self._talk, GROUP_RESOURCE, self._group, share_auto_offset_reset=reset, **values
        )
        epoch = 0

        async def is_assigned() -> bool:
            nonlocal epoch
            names = ("t",) if epoch == 0 else ()
            request = beat("m", epoch, *names, group_id=self._group)
            answer = await self._talk.send(request, ShareGroupHeartbeatResponse)
            if answer.error_code:
                return False
            epoch = answer.member_epoch
            return bool(answer.assignment and answer.assignment.topic_partitions)

        await self._talk.until(is_assigned)

    async def gets(self, upto: int) -> None:
        """The member has acquired records up to this offset when this returns."""
        found = -1

        async def has_them() -> bool:
            nonlocal found
            more: dict[str, Any] = {"topics": []} if self._epoch else {}
            request = fetch(
                self._topic_id,
                "m",
                self._epoch,
                group_id=self._group,
                partition=self._partition,
                max_wait_ms=200,
                min_bytes=1,
                **more,
            )
            answer = await self._talk.send(request, ShareFetchResponse)
            assert not answer.error_code, answer
            self._epoch += 1
            for topic in answer.responses:
                for row in topic.partitions:
                    for each in row.acquired_records:
                        found = max(found, each.last_offset)
            return found >= upto

        await self._talk.until(has_them)

    async def says(self, label: str, first: int, last: int, kind: int) -> None:
        """What it says of records is a case."""
        one = (first, last, [kind])
        more: Any = {"group_id": self._group, "partition": self._partition}
        await self._talk.ask(label, acknowledge(self._topic_id, "m", self._epoch, one, **more))
        self._epoch += 1


async def letters(talk: Talk, topic: str, partition: int, count: int) -> list[Any]:
    """So many letters of a partition, when they are there."""
    found: list[Any] = []

    async def are_there() -> bool:
        request = read((topic, want(partition=partition)))
        answer = await talk.send(request, FetchResponse, 12)
        (row,) = answer.responses[0].partitions
        found[:] = [] if row.error_code else list(iter_records(row.records or b""))
        return len(found) >= count

    await talk.until(are_there)
    return [_shown(each) for each in found]


def _shown(record: Any) -> Any:
    headers = [[name, value.decode()] for name, value in record.headers]
    key, value = (None if each is None else each.decode() for each in (record.key, record.value))
    own = [each for each in headers if each[0].startswith(PREFIX)]
    is_new = record.timestamp > THEN + 1_000_000
    return [record.offset, key, value[:9] if value else value, own, len(headers), is_new]


def rich(count: int, *, size: int = 3, codec: Codec = Codec.NONE) -> bytes:
    """Records with a key and a header."""
    rows = [
        (THEN + at, f"k{at}".encode(), f"v{at}".encode() * size, (("trace", b"x"),))
        for at in range(count)
    ]
    return bytes(encode_batch(rows, 0, codec=codec))


async def _used(talk: Talk, topic_id: bytes) -> None:
    await talk.topic("dlq.two", 2, errors_deadletterqueue_group_enable="true")
    await _by_default(talk, topic_id)
    await _with_copies(talk, topic_id)
    await _not_allowed(talk, topic_id)
    await _made(talk, topic_id)


async def _by_default(talk: Talk, topic_id: bytes) -> None:
    """No copies. Rejected, and given up after the last delivery; partition 2 of 3 goes to 0."""
    for partition in (1, 2):
        await talk.write("t", rich(4), index=partition)
        member = Member(talk, topic_id, f"bare{partition}", partition)
        await member.join(**{NAME: "dlq.two"})
        await member.gets(3)
        await member.says(f"{partition}: rejects", 0, 1, REJECT)
        await member.says(f"{partition}: accepts", 2, 2, ACCEPT)
        await member.says(f"{partition}: releases", 3, 3, RELEASE)
        await member.gets(3)
        await member.says(f"{partition}: releases again", 3, 3, RELEASE)
        talk.note(f"letters of {partition}", await letters(talk, "dlq.two", partition % 2, 3))


async def _with_copies(talk: Talk, topic_id: bytes) -> None:
    await talk.topic("dlq.copies", 1, errors_deadletterqueue_group_enable="true")
    await talk.alter_topic("dlq.copies", max_message_bytes="2000")
    await talk.write("t", rich(3), rich(1, size=4000), rich(2, codec=Codec.GZIP))
    member = Member(talk, topic_id, "copies", 0)
    await member.join(**{NAME: "dlq.copies", COPY: "true"})
    await member.gets(5)
    await member.says("copies: rejects", 0, 5, REJECT)
    talk.note("copies", await letters(talk, "dlq.copies", 0, 6))


async def _not_allowed(talk: Talk, topic_id: bytes) -> None:
    """What may not be written is given up all the same."""
    await talk.topic("dlq.closed", 1)
    await talk.topic("other", 1, errors_deadletterqueue_group_enable="true")
    await talk.topic("dlq.compacted", 1, errors_deadletterqueue_group_enable="true",
        cleanup_policy="compact")  # fmt: skip
    for name in ("dlq.closed", "other", "dlq.none", "dlq.compacted"):
        member = Member(talk, topic_id, f"to-{name}", 0)
        await member.join(**{NAME: name})
        await member.gets(5)
        await member.says(f"to {name}: rejects", 0, 5, REJECT)
        await talk.write("t", rich(1), index=2)
        await talk.ask(
            f"to {name}: nothing is left",
            fetch(topic_id, "n", 0, group_id=f"to-{name}", partition=0),
        )
    await talk.settled()
    for name in ("dlq.closed", "other", "dlq.compacted"):
        talk.note(f"letters in {name}", await letters(talk, name, 0, 0))


async def _made(talk: Talk, topic_id: bytes) -> None:
    """The broker creates the topic, and its name need not begin with anything."""
    await alter(talk, BROKER, "", **{AUTO: "true", DLQ_PREFIX: ""})
    member = Member(talk, topic_id, "made", 0)
    await member.join(**{NAME: "made"})
    await member.gets(5)
    await member.says("made: rejects", 0, 0, REJECT)
    talk.note("letters in made", await letters(talk, "made", 0, 1))
    asked = DescribeConfigsResource(
        resource_type=TOPIC,
        resource_name="made",
        configuration_keys=[ENABLE],
    )
    await talk.ask("made: it takes letters", DescribeConfigsRequest(resources=[asked]))
