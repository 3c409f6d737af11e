"""Spans of records, with the real OpenTelemetry SDK and a real broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from moldau.client import Consumer, KafkaError, NewTopic, Producer, Tracing
from moldau.client.producer.delivery import Sent
from moldau.client.producer.record import ProducerRecord
from moldau.client.sync import Admin
from moldau.testing import SyncEmbeddedBroker


class Told:
    """What was exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(provider)

    def of(self, name: str) -> list[Any]:
        return [each for each in self._exporter.get_finished_spans() if each.name == name]


@pytest.fixture
def topic(moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> str:
    name = f"{moldau_topic}-traced"
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        admin.create_topic(NewTopic(name, configs={"max.message.bytes": "1000"}))
    return name


def test_a_record_is_followed_from_send_to_process(
    moldau_broker: SyncEmbeddedBroker, topic: str
) -> None:
    told, bootstrap = Told(), moldau_broker.bootstrap_servers

    async def main() -> None:
        async with Producer(
            bootstrap_servers=bootstrap, interceptors=[told.tracing], key_serializer="string"
        ) as producer:
            sent = await producer.send_and_wait(topic, b"v", key="k", headers=[("own", b"1")])
        async with Consumer(bootstrap_servers=bootstrap, interceptors=[told.tracing]) as consumer:
            consumer.assign([(topic, sent.partition)])
            consumer.seek((topic, sent.partition), sent.offset)
            record = await consumer.getone()
            assert record.headers[0] == ("own", b"1")
            with pytest.raises(ZeroDivisionError), told.tracing.processing(record):
                raise ZeroDivisionError

    asyncio.run(main())
    (send,), (poll,), (process,) = (
        told.of(f"{name} {topic}") for name in ("send", "poll", "process")
    )
    assert (send.kind, poll.kind, process.kind) == (
        SpanKind.PRODUCER,
        SpanKind.CLIENT,
        SpanKind.CONSUMER,
    )
    assert process.parent.span_id == send.context.span_id
    assert [each.context.span_id for each in poll.links] == [send.context.span_id]
    assert process.status.status_code is StatusCode.ERROR
    assert send.attributes["messaging.system"] == "kafka"
    assert send.attributes["messaging.kafka.message.key"] == "k"
    assert send.attributes["messaging.kafka.offset"] == 0
    assert poll.attributes["messaging.operation.type"] == "receive"
    assert poll.attributes["messaging.batch.message_count"] == 1
    assert process.attributes["messaging.destination.partition.id"] == "0"


def test_a_record_that_fails_says_so_in_its_span(
    moldau_broker: SyncEmbeddedBroker, topic: str
) -> None:
    told = Told()

    async def main() -> None:
        async with Producer(
            bootstrap_servers=moldau_broker.bootstrap_servers, interceptors=[told.tracing]
        ) as producer:
            with pytest.raises(KafkaError):
                await producer.send_and_wait(topic, b"v" * 2000)

    asyncio.run(main())
    (send,) = told.of(f"send {topic}")
    assert send.status.status_code is StatusCode.ERROR
    assert send.attributes["error.type"] == "MESSAGE_TOO_LARGE"


def test_a_span_ends_though_a_later_interceptor_adds_a_header() -> None:
    told = Told()
    record = told.tracing.on_send(ProducerRecord("orders", b"v"))
    changed = replace(record, headers=(*record.headers, ("later", b"1")))
    told.tracing.on_outcome(changed, Sent("orders", 1, 7, 0), None)
    (send,) = told.of("send orders")
    assert send.attributes["messaging.kafka.offset"] == 7
    assert not told.tracing._sending
