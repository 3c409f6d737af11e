"""A cluster with one of each thing that a backup keeps, and what tests compare of two clusters."""

from __future__ import annotations

from moldau.client import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from moldau.client.admin.configs import Resource, ResourceType
from moldau.client.admin.quotas import QuotaAdmin, QuotaEntity
from moldau.client.admin.security import Acl, SecurityAdmin
from moldau.client.base.offsets import EARLIEST, LATEST
from moldau.operations.topics import own_settings
from moldau.protocol.acl_operations import AclOperation
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from moldau.records import walk

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
    "log.cleaner.backoff.ms": "50",
    "log.initial.task.delay.ms": "0",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
}
AS_IT_IS = {**SETTINGS, "log.cleaner.enable": "false"}
"""The settings of a cluster that does not compact what was restored before it is compared."""
TOPICS = ("orders", "table", "trimmed", "payments", "empty")
GROUP = "billing"


async def fill(address: str) -> None:
    """Make topics, records, transactions, a group, rules, quotas and a user."""
    async with Admin(bootstrap_servers=address) as admin:
        await admin.create_topic(NewTopic("orders", partitions=3, configs={"retention.ms": "-1"}))
        compacted = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "segment.ms": "20",
        }
        await admin.create_topic(NewTopic("table", partitions=1, configs=compacted))
        for name in ("trimmed", "payments", "empty"):
            await admin.create_topic(NewTopic(name, partitions=1))
        await add_orders(address, 200)
        async with Producer(bootstrap_servers=address, linger_ms=0) as producer:
            for number in range(60):
                await producer.send("table", b"v%d" % number, key=b"k%d" % (number % 3))
                await producer.send("trimmed", b"t%d" % number)
                if number % 7 == 0:
                    await producer.flush()
            await producer.flush()
        await _await_gaps(address, admin, TopicPartition("table", 0))
        await admin.delete_records({("trimmed", 0): 33})
        await pay(address)
        await admin.alter_group_offsets(
            GROUP,
            {
                TopicPartition("orders", 0): OffsetAndMetadata(7, "note", 0),
                TopicPartition("payments", 0): 2,
            },
        )
        rule = Acl("User:ann", AclOperation.READ, "orders")
        await SecurityAdmin(admin).create_acls([rule])
        await QuotaAdmin(admin).alter(QuotaEntity("ann"), {"producer_byte_rate": 1e6})
        await SecurityAdmin(admin).set_password("ann", "secret of ann")


async def _await_gaps(address: str, admin: Admin, where: TopicPartition) -> None:
    """Write until compaction has removed records, and let it remove no others. (The newest segment
    is not compacted, and only another record ends it.)"""
    (topic,) = (each for each in await admin.list_topics() if each.name == where.topic)
    async with Producer(bootstrap_servers=address) as producer:
        while True:
            await (await producer.send(where.topic, b"again", key=b"k0"))
            end = (await admin.list_offsets({where: LATEST}))[where].offset
            data = await _batches(admin, topic.topic_id, where, (0, end))
            if sum(each.header.record_count for each in walk(data)) < end:
                break
    resource = Resource(ResourceType.TOPIC, where.topic)
    await admin.alter_configs(resource, set_to={"min.compaction.lag.ms": str(1 << 40)})


async def add_orders(address: str, count: int) -> None:
    """Send records to `orders`, with an idempotent producer and compression."""
    async with Producer(bootstrap_servers=address, compression_type="lz4") as producer:
        for number in range(count):
            await producer.send("orders", b"order %d" % number, key=b"%d" % number)
        await producer.flush()


async def pay(address: str) -> None:
    async with Producer(bootstrap_servers=address, transactional_id="till") as producer:
        async with producer.transaction():
            await producer.send("payments", b"paid")
        await producer.begin_transaction()
        await producer.send("payments", b"never")
        await producer.flush()
        await producer.abort_transaction()
        async with producer.transaction():
            await producer.send("payments", b"paid again")


async def logs(
    address: str, topics: tuple[str, ...] = TOPICS
) -> dict[TopicPartition, tuple[int, int, bytes]]:
    """Return the start, the end and the batches of each partition, as the brokers have them."""
    found = {}
    async with Admin(bootstrap_servers=address) as admin:
        by_name = {each.name: each for each in await admin.list_topics()}
        for name in topics:
            topic = by_name[name]
            for index in range(len(topic.partitions)):
                where = TopicPartition(name, index)
                start = (await admin.list_offsets({where: EARLIEST}))[where].offset
                end = (await admin.list_offsets({where: LATEST}))[where].offset
                data = await _batches(admin, topic.topic_id, where, (start, end))
                found[where] = start, end, data
    return found


async def _batches(
    admin: Admin, topic_id: bytes, where: TopicPartition, ends: tuple[int, int]
) -> bytes:
    found, (position, end) = b"", ends
    while position < end:
        row = FetchPartition(
            partition=where.partition, fetch_offset=position, partition_max_bytes=1 << 20
        )
        topic = FetchTopic(topic=where.topic, topic_id=topic_id, partitions=[row])
        request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[topic])
        leader = await admin._cluster.leader(where)
        answer = await admin._cluster.call(request, FetchResponse, node_id=leader)
        for batch in walk(answer.responses[0].partitions[0].records or b""):
            found += bytes(batch.data)
            position = batch.header.next_offset
    return found


async def facts(address: str) -> dict[str, object]:
    """Return what else two clusters are compared by."""
    async with Admin(bootstrap_servers=address) as admin:
        topics = await admin.list_topics()
        return {
            "ids": {each.name: each.topic_id for each in topics},
            "settings": {each.name: await own_settings(admin, each.name) for each in topics},
            "offsets": await admin.group_offsets(GROUP),
            "rules": await SecurityAdmin(admin).describe_acls(),
            "quotas": await QuotaAdmin(admin).describe(),
        }


async def committed_values(address: str, topic: str) -> list[bytes | None]:
    """Return the values of `topic` that a reader of committed records gets."""
    found: list[bytes | None] = []
    async with Consumer(
        bootstrap_servers=address, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic, 0)])
        while True:
            records = await consumer.poll(1.0)
            if not records:
                return found
            found += [each.value for part in records for each in part.records]


async def after_now(admin: Admin) -> int:
    """Return a time after all that was done, and before all that is done next."""
    clock = admin._cluster.runtime.clock
    now_ms = clock.wall_ms()
    while clock.wall_ms() <= now_ms:
        await admin.describe_cluster()
    return now_ms + 1
