"""Jobs done by aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.conformance.programs.jobs import Job, records_of, serve, told
from tests.conformance.records import Record

TIMEOUT_S = 30.0


async def produce(job: Job) -> list[int]:
    producer = AIOKafkaProducer(
        bootstrap_servers=job["bootstrap"],
        compression_type=None if job["codec"] == "none" else job["codec"],
        acks="all" if job["acks"] == -1 else job["acks"],
        enable_idempotence=job["idempotent"],
        max_request_size=10_000_000,
        linger_ms=5,
    )
    async with producer:
        futures = [
            await producer.send(
                job["topic"],
                each.value,
                each.key,
                job["partition"],
                each.timestamp_ms,
                list(each.headers),
            )
            for each in records_of(job)
        ]
        sent = await asyncio.gather(*futures)
        return [-1 if each is None or each.offset < 0 else each.offset for each in sent]


@asynccontextmanager
async def _consumer(job: Job) -> AsyncIterator[tuple[AIOKafkaConsumer, TopicPartition]]:
    committed = job.get("read_committed", False)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=job["bootstrap"],
        auto_offset_reset="none",
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
    await consumer.start()
    try:
        where = TopicPartition(job["topic"], job["partition"])
        consumer.assign([where])
        yield consumer, where
    finally:
        await consumer.stop()


async def consume(job: Job) -> list[dict[str, Any]]:
    async with _consumer(job) as (consumer, where):
        consumer.seek(where, job["start"])
        found: list[Record] = []
        while len(found) < job["count"]:
            each = await asyncio.wait_for(consumer.getone(), TIMEOUT_S)
            headers = tuple((name, value) for name, value in each.headers)
            found.append(Record(each.key, each.value, headers, each.timestamp, each.offset))
        return told(found)


async def offset(job: Job) -> int:
    async with _consumer(job) as (consumer, where):
        if job["at"] == "earliest":
            return int((await consumer.beginning_offsets([where]))[where])
        if job["at"] == "latest":
            return int((await consumer.end_offsets([where]))[where])
        found = (await consumer.offsets_for_times({where: job["at"]}))[where]
        return -1 if found is None else int(found.offset)


@asynccontextmanager
async def _admin(job: Job) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=job["bootstrap"])
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def _check(errors: list[tuple[Any, ...]]) -> bool:
    """Of an answer that has (name, code, message) for each topic."""
    bad = [each for each in errors if each[1]]
    if bad:
        raise ValueError(str(bad))
    return True


async def create(job: Job) -> bool:
    topic = NewTopic(job["topic"], job["partitions"], 1, topic_configs=job["configs"])
    async with _admin(job) as admin:
        return _check((await admin.create_topics([topic])).topic_errors)


async def describe(job: Job) -> int:
    async with _admin(job) as admin:
        (found,) = await admin.describe_topics([job["topic"]])
        return len(found["partitions"])


async def grow(job: Job) -> bool:
    async with _admin(job) as admin:
        found = await admin.create_partitions({job["topic"]: NewPartitions(job["partitions"])})
        return _check(found.topic_errors)


def _resource(job: Job, configs: dict[str, str] | None = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, job["topic"], configs)


async def configs(job: Job) -> dict[str, str]:
    async with _admin(job) as admin:
        (found,) = await admin.describe_configs([_resource(job)])
        ((code, message, _, _, entries),) = found.resources
        if code:
            raise ValueError(message)
        return {entry[0]: entry[1] for entry in entries}


async def alter(job: Job) -> bool:
    async with _admin(job) as admin:
        (found,) = await admin.alter_configs([_resource(job, {job["name"]: job["value"]})])
        ((code, message, _, _),) = found.resources
        return _check([(job["topic"], code, message)])


async def trim(job: Job) -> bool:
    async with _admin(job) as admin:
        where = TopicPartition(job["topic"], job["partition"])
        found = await admin.delete_records({where: RecordsToDelete(job["before"])})
        if found[where] != job["before"]:
            raise ValueError(f"the log starts at {found[where]}")
        return True


async def delete(job: Job) -> bool:
    async with _admin(job) as admin:
        return _check((await admin.delete_topics([job["topic"]])).topic_error_codes)


async def topics(job: Job) -> list[str]:
    async with _admin(job) as admin:
        return sorted(await admin.list_topics())


async def cluster(job: Job) -> dict[str, Any]:
    async with _admin(job) as admin:
        found = await admin.describe_cluster()
        nodes = [[each["node_id"], each["host"], each["port"]] for each in found["brokers"]]
        return {"id": found["cluster_id"], "brokers": nodes}


def _at_once(job: Callable[[Job], Awaitable[Any]]) -> Callable[[Job], Any]:
    async def main(each: Job) -> Any:
        return await job(each)

    return lambda each: asyncio.run(main(each))


JOBS = (produce, consume, offset, create, describe, grow, configs, alter, trim, delete, topics)

if __name__ == "__main__":
    serve({job.__name__: _at_once(job) for job in (*JOBS, cluster)})
