"""Jobs done by kafka-python."""

from __future__ import annotations

from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType

from tests.conformance.programs.jobs import Job, records_of, serve, told
from tests.conformance.records import Record

TIMEOUT_S = 30.0


def produce(job: Job) -> list[int]:
    producer = KafkaProducer(
        bootstrap_servers=job["bootstrap"],
        compression_type=None if job["codec"] == "none" else job["codec"],
        acks="all" if job["acks"] == -1 else job["acks"],
        enable_idempotence=job["idempotent"],
        max_request_size=10_000_000,
        linger_ms=5,
    )
    try:
        futures = [
            producer.send(
                job["topic"],
                value=each.value,
                key=each.key,
                headers=list(each.headers),
                partition=job["partition"],
                timestamp_ms=each.timestamp_ms,
            )
            for each in records_of(job)
        ]
        offsets = [int(each.get(TIMEOUT_S).offset) for each in futures]
        # Without acknowledgement it tells places in the batch.
        return [-1] * len(offsets) if job["acks"] == 0 else offsets
    finally:
        producer.close(TIMEOUT_S)


def _consumer(job: Job) -> KafkaConsumer:
    committed = job.get("read_committed", False)
    return KafkaConsumer(
        bootstrap_servers=job["bootstrap"],
        group_id=None,
        auto_offset_reset="none",
        isolation_level="read_committed" if committed else "read_uncommitted",
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )


def consume(job: Job) -> list[dict[str, Any]]:
    consumer = _consumer(job)
    try:
        where = TopicPartition(job["topic"], job["partition"])
        consumer.assign([where])
        consumer.seek(where, job["start"])
        found: list[Record] = []
        for each in consumer:
            headers = tuple((name, value) for name, value in each.headers)
            found.append(Record(each.key, each.value, headers, each.timestamp, each.offset))
            if len(found) == job["count"]:
                return told(found)
        raise TimeoutError(f"{len(found)} records came")
    finally:
        consumer.close()


def offset(job: Job) -> int:
    consumer = _consumer(job)
    try:
        where = TopicPartition(job["topic"], job["partition"])
        if job["at"] == "earliest":
            return int(consumer.beginning_offsets([where])[where])
        if job["at"] == "latest":
            return int(consumer.end_offsets([where])[where])
        found = consumer.offsets_for_times({where: job["at"]})[where]
        return -1 if found is None else int(found.offset)
    finally:
        consumer.close()


def _admin(job: Job) -> KafkaAdminClient:
    return KafkaAdminClient(bootstrap_servers=job["bootstrap"])


def create(job: Job) -> bool:
    wanted = {
        "num_partitions": job["partitions"],
        "replication_factor": 1,
        "configs": job["configs"],
    }
    _admin(job).create_topics({job["topic"]: wanted})
    return True


def describe(job: Job) -> int:
    (found,) = _admin(job).describe_topics([job["topic"]])
    return len(found["partitions"])


def grow(job: Job) -> bool:
    _admin(job).create_partitions({job["topic"]: job["partitions"]})
    return True


def _resource(job: Job, configs: dict[str, str] | None = None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, job["topic"], configs)


def configs(job: Job) -> dict[str, str]:
    found = _admin(job).describe_configs([_resource(job)], config_filter="all")
    return {name: entry["value"] for name, entry in found["topic"][job["topic"]].items()}


def alter(job: Job) -> bool:
    _admin(job).alter_configs([_resource(job, {job["name"]: job["value"]})])
    return True


def trim(job: Job) -> bool:
    where = TopicPartition(job["topic"], job["partition"])
    found = _admin(job).delete_records({where: job["before"]})[where]
    if found["low_watermark"] != job["before"]:
        raise ValueError(f"the log starts at {found['low_watermark']}")
    return True


def delete(job: Job) -> bool:
    _admin(job).delete_topics([job["topic"]])
    return True


def topics(job: Job) -> list[str]:
    return sorted(_admin(job).list_topics())


def cluster(job: Job) -> dict[str, Any]:
    found = _admin(job).describe_cluster()
    nodes = [[each["broker_id"], each["host"], each["port"]] for each in found["brokers"]]
    return {"id": found["cluster_id"], "brokers": nodes}


JOBS = (
    produce,
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
