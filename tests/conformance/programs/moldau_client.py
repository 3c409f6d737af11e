"""Jobs done by moldau's own client, held to the same tests as everybody's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from moldau.client import (
    EARLIEST,
    LATEST,
    Admin,
    Consumer,
    NewTopic,
    Producer,
    Resource,
    ResourceType,
)
from moldau.client import TopicPartition as Where
from tests.conformance.programs.jobs import Job, records_of, serve, told
from tests.conformance.records import Record

TIMEOUT_S = 30.0


async def produce(job: Job) -> list[int]:
    settings = {
        "bootstrap.servers": job["bootstrap"],
        "compression.type": job["codec"],
        "acks": str(job["acks"]),
        "enable.idempotence": job["idempotent"],
        "max.request.size": 10_000_000,
        "linger.ms": 5,
    }
    async with Producer(settings) as producer:
        deliveries = [
            await producer.send(
                job["topic"],
                each.value,
                key=each.key,
                headers=each.headers,
                timestamp_ms=each.timestamp_ms,
                partition=job["partition"],
            )
            for each in records_of(job)
        ]
        await producer.flush()
        return [(await each).offset for each in deliveries]


async def consume(job: Job) -> list[dict[str, Any]]:
    level = "read_committed" if job["read_committed"] else "read_uncommitted"
    found: list[Record] = []
    settings = {"bootstrap.servers": job["bootstrap"], "isolation.level": level}
    async with Consumer({**settings, "auto.offset.reset": "none"}) as consumer:
        consumer.assign([Where(job["topic"], job["partition"])])
        consumer.seek((job["topic"], job["partition"]), job["start"])
        async with asyncio.timeout(TIMEOUT_S):
            while len(found) < job["count"]:
                for part in await consumer.poll(1.0, max_records=job["count"] - len(found)):
                    found += [
                        Record(
                            each.key, each.value, tuple(each.headers), each.timestamp, each.offset
                        )
                        for each in part.records
                    ]
    return told(found)


async def offset(job: Job) -> int:
    at: int = {"earliest": EARLIEST, "latest": LATEST}.get(job["at"]) or job["at"]
    where = Where(job["topic"], job["partition"])
    async with Consumer(bootstrap_servers=job["bootstrap"]) as consumer:
        return (await consumer.offsets({where: at}))[where].offset


def _admin(job: Job) -> Admin:
    return Admin(bootstrap_servers=job["bootstrap"])


async def create(job: Job) -> bool:
    async with _admin(job) as admin:
        await admin.create_topic(NewTopic(job["topic"], job["partitions"], 1, job["configs"]))
    return True


async def describe(job: Job) -> int:
    async with _admin(job) as admin:
        return len(await admin.partitions(job["topic"]))


async def grow(job: Job) -> bool:
    async with _admin(job) as admin:
        await admin.create_partitions(job["topic"], job["partitions"])
    return True


def _resource(job: Job) -> Resource:
    return Resource(ResourceType.TOPIC, job["topic"])


async def configs(job: Job) -> dict[str, str | None]:
    async with _admin(job) as admin:
        return {each.name: each.value for each in await admin.describe_configs(_resource(job))}


async def alter(job: Job) -> bool:
    async with _admin(job) as admin:
        await admin.alter_configs(_resource(job), set_to={job["name"]: job["value"]})
    return True


async def trim(job: Job) -> bool:
    where = Where(job["topic"], job["partition"])
    async with _admin(job) as admin:
        starts = await admin.delete_records({where: job["before"]})
    if starts[where] != job["before"]:
        raise ValueError(f"the log starts at {starts[where]}")
    return True


async def delete(job: Job) -> bool:
    async with _admin(job) as admin:
        await admin.delete_topic(job["topic"])
    return True


async def topics(job: Job) -> list[str]:
    async with _admin(job) as admin:
        return [each.name for each in await admin.list_topics()]


async def cluster(job: Job) -> dict[str, Any]:
    async with _admin(job) as admin:
        found = await admin.describe_cluster()
    nodes = [[each.node_id, each.address.host, each.address.port] for each in found.brokers]
    return {"id": found.cluster_id, "brokers": nodes}


def _at_once(job: Callable[[Job], Awaitable[Any]]) -> Callable[[Job], Any]:
    async def main(each: Job) -> Any:
        return await job(each)

    return lambda each: asyncio.run(main(each))


JOBS = (produce, consume, offset, create, describe, grow, configs, alter, trim, delete, topics)

if __name__ == "__main__":
    serve({job.__name__: _at_once(job) for job in (*JOBS, cluster)})
