"""Spans of a client's records without OpenTelemetry's library: pushed to a real receiver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanContext

from moldau.client import (
    ConfigError,
    Consumer,
    ConsumerRecord,
    KafkaError,
    NewTopic,
    OtlpTracing,
    Producer,
    ProducerInterceptor,
)
from moldau.client.producer import otlp_tracing
from moldau.client.producer.delivery import Sent
from moldau.client.producer.record import ProducerRecord
from moldau.client.sync import Admin
from moldau.client.sync import Producer as SyncProducer
from moldau.testing import SyncEmbeddedBroker
from moldau.tracing import read_context
from tests.client.guides import run_programs
from tests.metrics.otlp_receiver import Receiver, receiver
from tests.metrics.otlp_spans import Arrived

pytestmark = pytest.mark.real


@pytest.fixture
def topic(moldau_broker: SyncEmbeddedBroker, moldau_topic: str) -> str:
    name = f"{moldau_topic}-followed"
    with Admin(bootstrap_servers=moldau_broker.bootstrap_servers) as admin:
        admin.create_topic(NewTopic(name, configs={"max.message.bytes": "1000"}))
    return name


def named(name: str) -> Callable[[list[Arrived]], bool]:
    return lambda spans: any(each.name == name for each in spans)


def of(found: Receiver, name: str) -> Arrived:
    """The only span of that name."""
    (span,) = (each for each in found.wait_spans(named(name)) if each.name == name)
    return span


def test_a_send_is_linked_from_the_poll_and_follows_the_span_of_the_program(
    moldau_broker: SyncEmbeddedBroker, topic: str
) -> None:
    bootstrap = moldau_broker.bootstrap_servers
    outer = TracerProvider().get_tracer("test")

    async def main() -> tuple[SpanContext, ConsumerRecord]:
        tracing = OtlpTracing(found.address, service="shop")
        async with Producer(bootstrap_servers=bootstrap, interceptors=[tracing]) as producer:
            with outer.start_as_current_span("order") as order:
                sent = await producer.send_and_wait(topic, b"v", headers=[("own", b"1")])
        tracing = OtlpTracing(found.address, service="shop")
        async with Consumer(bootstrap_servers=bootstrap, interceptors=[tracing]) as consumer:
            consumer.assign([(topic, sent.partition)])
            consumer.seek((topic, sent.partition), sent.offset)
            record = await consumer.getone()
            await consumer.end_offsets([(topic, sent.partition)])  # the push has begun meanwhile
            return order.get_span_context(), record

    with receiver() as found:
        context, record = asyncio.run(main())
        send, poll = of(found, f"send {topic}").span, of(found, f"poll {topic}").span
    assert send.trace_id == context.trace_id.to_bytes(16)
    assert send.parent_span_id == context.span_id.to_bytes(8)
    assert record.headers[0] == ("own", b"1")
    carried = read_context(record.headers)
    assert carried is not None
    assert carried.span_id == send.span_id
    assert [each.span_id for each in poll.links] == [send.span_id]
    facts = of(found, f"send {topic}").facts
    assert facts["messaging.destination.name"] == topic
    assert facts["messaging.operation.type"] == "send"


def test_a_record_that_fails_says_so_in_its_span(
    moldau_broker: SyncEmbeddedBroker, topic: str
) -> None:
    with receiver() as found:
        tracing = OtlpTracing(found.address)
        with (
            SyncProducer(
                bootstrap_servers=moldau_broker.bootstrap_servers, interceptors=[tracing]
            ) as producer,
            pytest.raises(KafkaError),
        ):
            producer.send(topic, b"v" * 2000).result()
        span = of(found, f"send {topic}")
    assert span.facts["error.type"] == "MESSAGE_TOO_LARGE"
    assert span.span.status.code == 2


def test_a_name_in_the_settings_turns_it_on_by_the_variables(
    moldau_broker: SyncEmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as found:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", found.address)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "named")
        settings = {
            "bootstrap.servers": moldau_broker.bootstrap_servers,
            "interceptor.classes": "moldau.client.OtlpTracing",
        }
        with SyncProducer(settings) as producer:
            producer.send(topic, b"v").result()
        assert of(found, f"send {topic}").service == "named"


def later(record: ProducerRecord) -> ProducerRecord:
    """The record after an interceptor that adds a header."""
    return replace(record, headers=(*record.headers, ("later", b"1")))


def test_a_span_ends_though_a_later_interceptor_adds_a_header() -> None:
    async def main() -> None:
        tracing = OtlpTracing("http://127.0.0.1:9")
        record = tracing.on_send(ProducerRecord("orders", b"v"))
        tracing.on_outcome(later(record), Sent("orders", 1, 7, 0), None)
        assert not tracing._sending
        tracer = tracing._tracer()
        assert tracer is not None
        (span,) = tracer.take(9)
        assert (span.name, span.attributes["messaging.kafka.offset"]) == ("send orders", 7)
        tracing.close()

    asyncio.run(main())


def test_sends_without_an_outcome_are_given_up_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_tracing, "_OPEN_MAX", 2)

    async def main() -> None:
        tracing = OtlpTracing("http://127.0.0.1:9")
        records = [tracing.on_send(ProducerRecord("orders", b"v")) for _ in range(5)]
        tracer = tracing._tracer()
        assert tracer is not None
        assert (len(tracing._sending), tracer.dropped) == (2, 3)
        for each in records:
            tracing.on_outcome(each, Sent("orders", 1, 7, 0), None)
        assert (len(tracing._sending), tracer.ended) == (0, 5)
        tracer.take(9)
        tracing.close()

    asyncio.run(main())


def test_a_ratio_of_nothing_adds_no_header(moldau_broker: SyncEmbeddedBroker, topic: str) -> None:
    seen: list[object] = []

    class Seen(ProducerInterceptor):
        def on_send(self, record):  # type: ignore[no-untyped-def]
            seen.append(record.headers)
            return record

    with receiver() as found:
        tracing = OtlpTracing(found.address, ratio=0.0)
        with SyncProducer(
            bootstrap_servers=moldau_broker.bootstrap_servers, interceptors=[tracing, Seen()]
        ) as producer:
            producer.send(topic, b"v").result()
    assert seen == [()]
    assert found.spans == []


def test_without_a_receiver_it_is_refused_with_what_to_give() -> None:
    with pytest.raises(ConfigError, match="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        OtlpTracing(environment={})
    with pytest.raises(ConfigError, match="from 0 to 1"):
        OtlpTracing("http://localhost:4318", ratio=2.0, environment={})


def test_the_program_of_the_page_runs(moldau_broker: SyncEmbeddedBroker) -> None:
    with receiver() as found:
        addresses = {
            "localhost:9092": moldau_broker.bootstrap_servers,
            '"http://localhost:4318", ratio=0.1': f'"{found.address}", ratio=1.0',
        }
        run_programs("traces.md", addresses)
        assert of(found, "send orders").service == "shop"
