"""Looks at a whole cluster for `moldau top`, with requests that every Kafka answers.

What does not answer soon is left out of a look, and named in it: a broker that died a moment ago
must not delay the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.commands.cluster_controller import all_brokers
from moldau.cli.commands.top_report import (
    BrokerLook,
    GroupLook,
    Look,
    PartitionLook,
    TopicLook,
    TransactionLook,
)
from moldau.cli.commands.txn_open import DONE

if TYPE_CHECKING:
    from moldau.client import Admin, Topic, TopicPartition
    from moldau.client.admin.cluster import LogDir
    from moldau.runtime import Clock

_WITHIN_S: Final = 5.0
_DESCRIBED_MAX: Final = 20
"""Each open transaction costs a request, so only some get an age."""
_SHARE: Final = "share"
_MS: Final = 1000.0


async def look(client: Admin, clock: Clock, controller: int | None, internal: bool) -> Look:
    """Return the state of the cluster. `internal` adds the topics of the brokers."""
    from moldau.cli.shell import within_or_later

    cluster = await all_brokers(client)
    topics = await client.list_topics(internal=True)
    alive = [each.node_id for each in cluster.brokers]
    logs = await _log_dirs(client, alive)
    ends = await within_or_later(_WITHIN_S, _end_offsets(client, topics, alive))
    at_s = clock.monotonic()
    groups = await within_or_later(_WITHIN_S, _groups(client))
    transactions = await within_or_later(_WITHIN_S, _transactions(client, clock.wall_ms()))
    silent = [f"broker {each}" for each in alive if each not in logs]
    for what, found in (("offsets", ends), ("groups", groups), ("transactions", transactions)):
        silent += [what] if found is None else []
    partitions = [(topic, each) for topic in topics for each in topic.partitions]
    return Look(
        cluster.cluster_id or "",
        at_s,
        [
            BrokerLook(
                each.node_id,
                str(each.address),
                each.node_id in alive,
                each.node_id == controller,
                leads=sum(one.leader == each.node_id for _, one in partitions),
                replicas=sum(each.node_id in one.replicas for _, one in partitions),
                size_bytes=_total(logs.get(each.node_id)),
            )
            for each in sorted((*cluster.brokers, *cluster.fenced), key=lambda it: it.node_id)
        ],
        [_topic(each, ends, logs) for each in topics if internal or not each.is_internal],
        groups or (),
        [
            PartitionLook(
                topic.name,
                each.index,
                each.leader if each.leader >= 0 else None,
                tuple(each.replicas),
                tuple(each.isr),
            )
            for topic, each in partitions
            if len(each.isr) < len(each.replicas)
        ],
        transactions or (),
        silent,
    )


def _total(logs: Sequence[LogDir] | None) -> int | None:
    if logs is None:
        return None
    return sum(replica.size_bytes for each in logs for replica in each.replicas)


def _topic(
    topic: Topic,
    ends: Mapping[TopicPartition, int] | None,
    logs: Mapping[int, Sequence[LogDir]],
) -> TopicLook:
    """Return the topic. A sum is None unless each partition with a leader is in it: else a
    partition that is back would look like many new records."""
    from moldau.client import TopicPartition

    led = {each.index: each.leader for each in topic.partitions if each.leader >= 0}
    known = {} if ends is None else ends
    found = [known[where] for index in led if (where := TopicPartition(topic.name, index)) in known]
    sizes = {
        replica.where.partition: replica.size_bytes
        for broker in set(led.values())
        for each in logs.get(broker, ())
        for replica in each.replicas
        if replica.where.topic == topic.name
        and not replica.is_future
        and led.get(replica.where.partition) == broker
    }
    return TopicLook(
        topic.name,
        len(topic.partitions),
        sum(found) if len(found) == len(led) else None,
        sum(sizes.values()) if len(sizes) == len(led) else None,
    )


async def _log_dirs(client: Admin, brokers: Sequence[int]) -> dict[int, Sequence[LogDir]]:
    """Return the log directories of the brokers that answer soon."""
    from moldau.cli.shell import within_or_later
    from moldau.client.admin.requests import at_once
    from moldau.errors.codes import KafkaError

    async def ask(broker: int) -> Sequence[LogDir] | None:
        return await within_or_later(_WITHIN_S, client.describe_log_dirs([broker]))

    found = await at_once(brokers, ask)
    return {
        broker: each
        for broker, each in found.items()
        if each is not None and not isinstance(each, KafkaError)
    }


async def _end_offsets(
    client: Admin, topics: Sequence[Topic], alive: Sequence[int]
) -> dict[TopicPartition, int]:
    from moldau.client import LATEST, TopicPartition

    wanted = {
        TopicPartition(topic.name, each.index): LATEST
        for topic in topics
        for each in topic.partitions
        if each.leader in alive
    }
    found = await client.list_offsets(wanted)
    return {where: each.offset for where, each in found.items()}


async def _groups(client: Admin) -> list[GroupLook]:
    """Return the groups that commit offsets, with their lag."""
    from moldau.errors.codes import KafkaError

    names = [each.group_id for each in await client.list_groups() if each.type != _SHARE]
    found: dict[str, Any] = dict(await client.groups_progress(names)) if names else {}
    return [
        GroupLook(name, each.group.state, len(each.group.members), each.lag)
        for name, each in found.items()
        if not isinstance(each, KafkaError)
    ]


async def _transactions(client: Admin, now_ms: int) -> list[TransactionLook]:
    from moldau.client import TransactionAdmin
    from moldau.errors.codes import KafkaError

    admin = TransactionAdmin(client)
    open_ones = [each for each in await admin.list_all() if each.state not in DONE]
    names = [each.transactional_id for each in open_ones[:_DESCRIBED_MAX]]
    described = await admin.describe(names) if names else {}
    found = []
    for each in open_ones:
        facts = described.get(each.transactional_id)
        open_s = None
        if facts is not None and not isinstance(facts, KafkaError) and facts.started_ms > 0:
            open_s = max(now_ms - facts.started_ms, 0) / _MS
        found.append(TransactionLook(each.transactional_id, each.state, each.producer_id, open_s))
    return found
