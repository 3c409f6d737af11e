"""What clients push is read, bounded, and seen in a scrape (KIP-714)."""

from __future__ import annotations

import pytest

from moldau.broker.api.client_instances import INSTANCES_MAX, Client, ClientInstances
from moldau.broker.api.telemetry import (
    DECOMPRESSED_BYTES_MAX,
    SERIES_MAX,
    SERIES_OF_CLIENT,
    ClientFigures,
    series_name,
)
from moldau.broker.exposition.page import Page
from moldau.broker.exposition.scrape import clients
from moldau.errors.codes import ErrorCode
from moldau.metrics import Registry
from moldau.metrics.otlp import Requests, Times, metric_messages
from moldau.metrics.otlp_reading import Figure, read_figures
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from moldau.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from moldau.records.codecs import Codec, compress
from tests.broker.api.serving import Serving, serving

LISTENER = "127.0.0.1:9404"
TIMES = Times(1, 2)


def pushed(sent: int) -> bytes:
    """What a client with a counter and a gauge pushes."""
    registry = Registry()
    registry.counter("org.apache.kafka.producer.record.send", "Sent.").add(sent)
    registry.gauges("librdkafka.depth", "Depth.", labels=("node.id",)).bind("1").set(2.5)
    packed = Requests((("group_id", "g"),), "scope")
    for metric in registry.snapshot():
        for each in metric_messages(metric, TIMES):
            packed.add(each)
    body = packed.rest()
    assert body is not None
    return body


def push(
    data: bytes, subscription_id: int, codec: Codec = Codec.NONE, client: int = 9
) -> PushTelemetryRequest:
    return PushTelemetryRequest(
        client_instance_id=bytes((client,)) * 16,
        subscription_id=subscription_id,
        terminating=False,
        compression_type=int(codec),
        metrics=data,
    )


async def subscription(at: Serving, client: int = 9) -> int:
    request = GetTelemetrySubscriptionsRequest(client_instance_id=bytes((client,)) * 16)
    answer = await at.ask(request, GetTelemetrySubscriptionsResponse)
    assert answer.error_code == ErrorCode.NONE
    return answer.subscription_id


def shown(at: Serving) -> list[str]:
    page = Page()
    for _ in clients(page, at.node):
        pass
    return [line for line in "".join(page.pieces()).splitlines() if line[0] != "#"]


@pytest.mark.parametrize("codec", Codec)
def test_a_push_is_seen_in_a_scrape_with_its_client(codec: Codec) -> None:
    @serving(moldau__metrics__listener=LISTENER)
    async def run(at: Serving) -> None:
        known = await subscription(at)
        request = push(bytes(compress(codec, pushed(7))), known, codec)
        answer = await at.ask(request, PushTelemetryResponse)
        assert answer.error_code == ErrorCode.NONE
        lines = shown(at)
        labels = 'client_id="test",client_instance_id="CQkJCQkJCQkJCQkJCQkJCQ"'
        name = "kafka_client_producer_record_send_total"
        assert f'{name}{{group_id="g",{labels}}} 7' in lines
        assert f'kafka_client_librdkafka_depth{{group_id="g",node_id="1",{labels}}} 2.5' in lines
        assert "kafka_server_client_metrics_instance_count 1" in lines
        assert 'moldau_client_pushes_total{result="taken"} 1' in lines

    run()


@pytest.mark.parametrize("codec", [each for each in Codec if each is not Codec.NONE])
def test_a_push_that_grows_beyond_its_bound_is_refused(codec: Codec) -> None:
    @serving(moldau__metrics__listener=LISTENER)
    async def run(at: Serving) -> None:
        bomb = bytes(compress(codec, bytes(DECOMPRESSED_BYTES_MAX + 1)))
        assert len(bomb) < 1_048_576
        request = push(bomb, await subscription(at), codec)
        answer = await at.ask(request, PushTelemetryResponse)
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert 'moldau_client_pushes_total{result="refused"} 1' in shown(at)

    run()


@pytest.mark.parametrize("data", [b"\x0a\x05abc", b"\xff" * 20])
def test_bytes_that_are_no_metrics_are_refused(data: bytes) -> None:
    @serving(moldau__metrics__listener=LISTENER)
    async def run(at: Serving) -> None:
        answer = await at.ask(push(data, await subscription(at)), PushTelemetryResponse)
        assert answer.error_code == ErrorCode.INVALID_RECORD

    run()


def test_clients_are_forgotten_with_their_series() -> None:
    @serving(moldau__metrics__listener=LISTENER)
    async def run(at: Serving) -> None:
        await at.ask(push(pushed(1), await subscription(at)), PushTelemetryResponse)
        assert any("kafka_client" in line for line in shown(at))
        at.node.telemetry.expire(at.now_ms + 3 * 300_000 + 1)
        lines = shown(at)
        assert not any("kafka_client" in line for line in lines)
        assert "kafka_server_client_metrics_instance_count 0" in lines

    run()


@pytest.mark.parametrize("is_read", [True, False])
def test_the_apis_are_offered_while_pushes_are_passed_on(is_read: bool) -> None:
    given = {"moldau__metrics__listener": LISTENER} if is_read else {}

    @serving(**given)
    async def run(at: Serving) -> None:
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        answer = await at.ask(request, ApiVersionsResponse, 3)
        offered = {each.api_key for each in answer.api_keys}
        assert ({71, 72} <= offered) is is_read

    run()


def figure(number: int, value: float = 1.0, *, is_delta: bool = False) -> Figure:
    return Figure(f"org.apache.kafka.n{number}", (), value, is_counter=True, is_delta=is_delta)


def test_the_series_are_bounded_and_what_is_over_is_counted() -> None:
    figures = ClientFigures()
    wanted = SERIES_MAX // SERIES_OF_CLIENT + 2
    for client in range(wanted):
        many = [figure(each) for each in range(SERIES_OF_CLIENT + 5)]
        figures.take(bytes((client,)) * 16, (("client_id", str(client)),), many)
    assert len(figures) == SERIES_MAX
    assert figures.left_out == wanted * (SERIES_OF_CLIENT + 5) - SERIES_MAX
    figures.keep(lambda instance_id: instance_id == bytes(16))
    assert len(figures) == SERIES_OF_CLIENT


def test_differences_are_added_up_and_totals_are_not() -> None:
    figures = ClientFigures()
    for value in (2.0, 3.0):
        figures.take(bytes(16), (), [figure(1, value, is_delta=True), figure(2, value)])
    assert [value for _, value in figures.series()] == [5.0, 3.0]


def test_the_table_of_clients_is_bounded() -> None:
    instances = ClientInstances()
    for number in range(INSTANCES_MAX + 10):
        instances.on_ask(Client(number.to_bytes(16, "big"), {}), number)
    assert len(instances) == INSTANCES_MAX
    assert bytes(16) not in instances


def test_a_push_is_read_up_to_a_number_of_figures() -> None:
    registry = Registry()
    family = registry.gauges("a.b", "B.", labels=("n",))
    for number in range(100):
        family.bind(str(number)).set(number)
    (body,) = metric_messages(registry.snapshot()[0], TIMES)
    packed = Requests((), "scope")
    packed.add(body)
    assert len(read_figures(packed.rest() or b"", 30)) == 30


def test_names_become_series_of_clients() -> None:
    names = {
        "org.apache.kafka.consumer.fetch-latency.avg": "kafka_client_consumer_fetch_latency_avg",
        "own": "kafka_client_own",
        "a\nb 1": None,
        "": None,
    }
    assert {each: series_name(each, is_counter=False) for each in names} == names
    assert series_name("a.total", is_counter=True) == "kafka_client_a_total"
