"""Renew the golden data: `python -m tests.protocol.oracle.renew` from the root of the repository.

Needs Kafka's schemas (tests/oracle.py) and its jars (tests/peers/apache_kafka.py). It makes a full,
a sparse and a bare value for each message and version, and two values for each message to write
in all its versions, and keeps what Kafka's classes answer. The values are seeded, so that a
second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests import oracle
from tests.oracle import MessageSchema
from tests.peers import apache_kafka
from tests.peers.apache_kafka import ApacheKafka
from tests.protocol.oracle import golden, kafka_java, kafka_json, second_codec, values
from tests.protocol.oracle.kafka_java import Answer, java_class
from tests.protocol.oracle.second_codec import Value

DOWNGRADE_SEEDS = (0, 2)


def main() -> None:
    """Ask Kafka, and write the files."""
    if not oracle.messages():
        raise SystemExit(f"no schemas: set {oracle.FOLDER_VARIABLE}")
    kafka = apache_kafka.fetch()
    golden.write([*_samples(kafka), *_downgrades(kafka)])
    golden.write_table("errors", kafka_java.errors(kafka))
    golden.write_table("apis", kafka_java.apis(kafka))
    size = sum(path.stat().st_size for path in golden.FOLDER.iterdir())
    print(f"{size / 1e6:.2f} MB in {golden.FOLDER}")


def _samples(kafka: ApacheKafka) -> Iterator[golden.Sample]:
    wanted = [
        (schema, version, _json(schema, version, value))
        for schema in oracle.messages().values()
        for version in schema.versions
        for value in _sample_values(schema, version)
    ]
    answers = kafka_java.ask(
        kafka,
        [
            kafka_java.encode(java_class(schema.folder, schema.name), version, value)
            for schema, version, value in wanted
        ],
    )
    for (schema, version, value), answer in zip(wanted, answers, strict=True):
        data = bytes.fromhex(answer["hex"])
        yield golden.Sample(schema.folder, schema.name, version, value, data)


def _downgrades(kafka: ApacheKafka) -> Iterator[golden.Downgrade]:
    wanted = [
        (schema, schema.versions.highest, _downgraded(schema, seed))
        for schema in oracle.messages().values()
        for seed in DOWNGRADE_SEEDS
        if schema.versions.highest > schema.versions.lowest
    ]
    questions = [
        kafka_java.encode(java_class(schema.folder, schema.name), top, value, written_as=version)
        for schema, top, value in wanted
        for version in schema.versions
    ]
    answers = iter(kafka_java.ask(kafka, questions))
    for schema, top, value in wanted:
        written = {version: _bytes_or_refused(next(answers)) for version in schema.versions}
        yield golden.Downgrade(schema.folder, schema.name, top, value, written)


def _sample_values(schema: MessageSchema, version: int) -> list[Value]:
    full, sparse = (values.seeded(schema, version, seed) for seed in (0, 1))
    samples = [full, sparse, values.bare(schema, version)]
    assert len(samples) == golden.SAMPLES_A_VERSION
    return samples


def _downgraded(schema: MessageSchema, seed: int) -> dict[str, Any]:
    newest = schema.versions.highest
    return _json(schema, newest, values.seeded(schema, newest, seed))


def _json(schema: MessageSchema, version: int, value: Value) -> dict[str, Any]:
    return kafka_json.to_json(schema, version, second_codec.complete(schema, value))


def _bytes_or_refused(answer: Answer) -> bytes | None:
    if "hex" in answer:
        return bytes.fromhex(answer["hex"])
    # A null that the older version cannot hold is refused with a NullPointerException.
    assert answer["refused"] in ("UnsupportedVersionException", "NullPointerException"), answer
    return None


if __name__ == "__main__":
    main()
