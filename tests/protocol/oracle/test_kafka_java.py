"""Apache Kafka's own generated classes, asked now: fresh values, and the golden data again."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from moldau.protocol.declare import Message
from tests import oracle
from tests.oracle import MessageSchema
from tests.peers.apache_kafka import ApacheKafka, fetch_or_skip
from tests.protocol.oracle import golden, kafka_java, kafka_json, our_messages, second_codec
from tests.protocol.oracle.effort import EXAMPLES
from tests.protocol.oracle.golden import Downgrade, Sample
from tests.protocol.oracle.kafka_java import Answer, Question, java_class
from tests.protocol.oracle.second_codec import Value
from tests.protocol.oracle.values import seeded

pytestmark = pytest.mark.real

# Golden data uses the seeds below this.
_FIRST_SEED = 100


class Fresh(NamedTuple):
    """A value that is not in the golden data, and what Kafka made of it and of our bytes."""

    schema: MessageSchema
    version: int
    value: Value
    ours: Message
    written: Answer
    read: Answer


class Golden(NamedTuple):
    """What Kafka says today about what the golden data asks."""

    samples: list[tuple[Sample, Answer]]
    downgrades: list[tuple[Downgrade, int, Answer]]
    errors: list[dict[str, Any]]
    apis: list[dict[str, Any]]


@pytest.fixture(scope="module")
def kafka() -> ApacheKafka:
    return fetch_or_skip()


@pytest.fixture(scope="module")
def fresh(kafka: ApacheKafka) -> list[Fresh]:
    """New values for every (message, version)."""
    made = [
        (schema, version, second_codec.complete(schema, seeded(schema, version, seed)))
        for schema in oracle.messages().values()
        for version in schema.versions
        for seed in range(_FIRST_SEED, _FIRST_SEED + EXAMPLES)
    ]
    messages = [
        our_messages.from_value(our_messages.message_class(schema.name), value)
        for schema, _, value in made
    ]
    questions: list[Question] = []
    for (schema, version, value), ours in zip(made, messages, strict=True):
        java_type = java_class(schema.folder, schema.name)
        written = kafka_java.encode(java_type, version, kafka_json.to_json(schema, version, value))
        read = kafka_java.decode(java_type, version, ours.encode(version))
        questions += [written, read]
    answers = iter(kafka_java.ask(kafka, questions))
    return [
        Fresh(*what, ours, next(answers), next(answers))
        for what, ours in zip(made, messages, strict=True)
    ]


@pytest.fixture(scope="module")
def golden_again(kafka: ApacheKafka) -> Golden:
    """The questions of the golden data, asked again."""
    samples = golden.samples()
    downgrades = [(sample, version) for sample in golden.downgrades() for version in sample.written]
    questions: list[Question] = []
    for sample in samples:
        java_type = java_class(sample.folder, sample.message)
        question = kafka_java.encode(java_type, sample.version, sample.json)
        questions.append(question)
    for value, version in downgrades:
        java_type = java_class(value.folder, value.message)
        question = kafka_java.encode(java_type, value.version, value.json, written_as=version)
        questions.append(question)
    answers = iter(kafka_java.ask(kafka, questions))
    return Golden(
        samples=[(sample, next(answers)) for sample in samples],
        downgrades=[(value, version, next(answers)) for value, version in downgrades],
        errors=kafka_java.errors(kafka),
        apis=kafka_java.apis(kafka),
    )


@oracle.needs_schemas
def test_kafka_writes_our_bytes(fresh: list[Fresh]) -> None:
    for each in fresh:
        ours = each.ours.encode(each.version).hex()
        assert each.written == {"hex": ours}, (each.schema.name, each.version)


@oracle.needs_schemas
def test_kafka_reads_our_bytes(fresh: list[Fresh]) -> None:
    for each in fresh:
        assert "json" in each.read, (each.schema.name, each.version)
        value = kafka_json.from_json(each.schema, each.version, each.read["json"])
        expected = kafka_json.with_records_sized(each.schema, each.value)
        assert value == expected, (each.schema.name, each.version)


def test_the_golden_samples_are_what_kafka_writes(golden_again: Golden) -> None:
    for sample, answer in golden_again.samples:
        assert answer == {"hex": sample.data.hex()}, str(sample)


def test_the_golden_downgrades_are_what_kafka_writes(golden_again: Golden) -> None:
    for sample, version, answer in golden_again.downgrades:
        data = sample.written[version]
        expected = None if data is None else data.hex()
        assert answer.get("hex") == expected, (sample.message, version)


def test_the_golden_tables_are_kafkas(golden_again: Golden) -> None:
    assert golden_again.errors == golden.errors()
    assert golden_again.apis == golden.apis()
