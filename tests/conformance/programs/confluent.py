"""Jobs done by confluent-kafka, that is by librdkafka."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import confluent_kafka.admin
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.conformance.programs.jobs import Job, records_of, serve, told
from tests.conformance.records import Record

TIMEOUT_S = 30.0
# It hands on names of its inner modules without saying so to a type checker.
names: Any = confluent_kafka.admin


class _Reports:
    """What librdkafka says of each record, in the order of the records."""

    def __init__(self, count: int) -> None:
        self.offsets = [-2] * count

    def of(self, at: int) -> Callable[[KafkaError | None, Message], None]:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            offset = message.offset()
            self.offsets[at] = -1 if offset is None or offset < 0 else offset

        return delivered


def _send(producer: Producer, job: Job, records: list[Record]) -> list[int]:
    # Without metadata the flush begins before the records reach the partition's queue, and the
    # first of them is a batch alone.
    producer.list_topics(job["topic"], TIMEOUT_S)
    reports = _Reports(len(records))
    for at, each in enumerate(records):
        producer.produce(
            job["topic"],
            each.value,
            each.key,
            partition=job["partition"],
            headers=list(each.headers),
            timestamp=each.timestamp_ms,
            on_delivery=reports.of(at),
        )
    left = producer.flush(TIMEOUT_S)
    if left:
        raise TimeoutError(f"{left} records were not acknowledged")
    return reports.offsets


def produce(job: Job) -> list[int]:
    settings = {
        "bootstrap.servers": job["bootstrap"],
        "compression.codec": job["codec"],
        "acks": job["acks"],
        "enable.idempotence": job["idempotent"],
        "message.max.bytes": 10_000_000,
        # One record alone is left uncompressed, so all of them wait until the flush.
        "linger.ms": 60_000,
    }
    return _send(Producer(settings), job, records_of(job))


def transactions(job: Job) -> list[int]:
    """`steps` of records, each a transaction that is committed, aborted, or left open."""
    producer = Producer(
        {
            "bootstrap.servers": job["bootstrap"],
            "transactional.id": job["id"],
            "compression.codec": job["codec"],
        }
    )
    producer.init_transactions(TIMEOUT_S)
    offsets = []
    for step in job["steps"]:
        producer.begin_transaction()
        offsets += _send(producer, job, records_of(step))
        if step["end"] == "commit":
            producer.commit_transaction(TIMEOUT_S)
        elif step["end"] == "abort":
            producer.abort_transaction(TIMEOUT_S)
    return offsets


def _consumer(job: Job) -> Consumer:
    committed = job.get("read_committed", False)
    return Consumer(
        {
            "bootstrap.servers": job["bootstrap"],
            "group.id": "assigned",
            "enable.auto.commit": False,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "auto.offset.reset": "error",
        }
    )


def consume(job: Job) -> list[dict[str, Any]]:
    consumer = _consumer(job)
    try:
        consumer.assign([TopicPartition(job["topic"], job["partition"], job["start"])])
        found: list[Record] = []
        while len(found) < job["count"]:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise TimeoutError(f"{len(found)} records came")
            if message.error():
                raise KafkaException(message.error())
            found.append(_record(message))
        return told(found)
    finally:
        consumer.close()


def _record(message: Any) -> Record:
    """`Any`: its types leave open what a stored record always has."""
    headers = tuple((name, value) for name, value in message.headers() or ())
    stamp = message.timestamp()[1]
    return Record(message.key(), message.value(), headers, stamp, message.offset())


def offset(job: Job) -> int:
    consumer = _consumer(job)
    try:
        where = TopicPartition(job["topic"], job["partition"])
        if isinstance(job["at"], str):
            low, high = consumer.get_watermark_offsets(where, timeout=TIMEOUT_S)
            return int(low if job["at"] == "earliest" else high)
        where.offset = job["at"]
        return int(consumer.offsets_for_times([where], timeout=TIMEOUT_S)[0].offset)
    finally:
        consumer.close()


def _admin(job: Job) -> AdminClient:
    """Kept: what is under way ends with the client that asked for it."""
    return _admin_of(job["bootstrap"])


@cache
def _admin_of(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


def _done(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def create(job: Job) -> bool:
    topic = names.NewTopic(job["topic"], job["partitions"], 1, config=job["configs"])
    _done(_admin(job).create_topics([topic]))
    return True


def describe(job: Job) -> int:
    found = _done(_admin(job).describe_topics(TopicCollection([job["topic"]])))
    return len(found.partitions)


def grow(job: Job) -> bool:
    _done(_admin(job).create_partitions([names.NewPartitions(job["topic"], job["partitions"])]))
    return True


def configs(job: Job) -> dict[str, str]:
    found = _done(_admin(job).describe_configs([names.ConfigResource("topic", job["topic"])]))
    return {name: entry.value for name, entry in found.items()}


def alter(job: Job) -> bool:
    entry = names.ConfigEntry(
        job["name"], job["value"], incremental_operation=names.AlterConfigOpType.SET
    )
    resource = names.ConfigResource(
        names.ResourceType.TOPIC, job["topic"], incremental_configs=[entry]
    )
    _done(_admin(job).incremental_alter_configs([resource]))
    return True


def trim(job: Job) -> bool:
    where = TopicPartition(job["topic"], job["partition"], job["before"])
    found = _done(_admin(job).delete_records([where]))
    if found.low_watermark != job["before"]:
        raise ValueError(f"the log starts at {found.low_watermark}")
    return True


def delete(job: Job) -> bool:
    _done(_admin(job).delete_topics([job["topic"]]))
    return True


def topics(job: Job) -> list[str]:
    return sorted(_admin(job).list_topics(timeout=TIMEOUT_S).topics)


def cluster(job: Job) -> dict[str, Any]:
    found = _admin(job).describe_cluster().result(TIMEOUT_S)
    nodes = [[each.id, each.host, each.port] for each in found.nodes]
    return {"id": found.cluster_id, "brokers": nodes}


JOBS = (
    produce,
    transactions,
    consume,
    offset,
    create,
    describe,
    grow,
    configs,
    alter,
    trim,
    delete,
    topics,
    cluster,
)

if __name__ == "__main__":
    serve({job.__name__: job for job in JOBS})
