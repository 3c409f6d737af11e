"""The metrics of a node arrive at an OTLP receiver, by the names of `/metrics`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.broker.exposition.node import ObservedBroker
from moldau.broker.exposition.scrape import Scraper
from moldau.metrics import HistogramValue
from moldau.runtime.real import RealClock
from moldau.testing import EmbeddedBroker
from tests.broker.exposition.scraped import application_of, broker_of, scrape
from tests.broker.exposition.used_broker import RECORDS, used, with_a_used_broker
from tests.broker.main.processes import broker_process, finished
from tests.metrics.otlp_receiver import Receiver, receiver

pytestmark = pytest.mark.real


def test_a_push_has_the_series_of_a_scrape() -> None:
    async def check(broker: EmbeddedBroker) -> None:
        async def turn() -> None:
            await asyncio.sleep(0)

        page = await scrape(application_of(broker))
        observed = ObservedBroker(broker_of(broker)).observed()
        pushed: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
        async for metric in Scraper(RealClock(), turn).metrics(observed):
            for point in metric.points:
                if not isinstance(point.value, HistogramValue):
                    labels = frozenset(
                        (name.replace(".", "_"), value) for name, value in point.attributes
                    )
                    pushed.setdefault(metric.prometheus_name, {})[labels] = point.value
        scraped = {
            name: values
            for name, values in page.values.items()
            if page.kinds.get(name) not in (None, "histogram")
        }
        assert {name: set(scraped[name]) for name in scraped} == {
            name: set(pushed[name]) for name in pushed
        }
        name = "kafka_topic_partition_current_offset"
        assert pushed[name] == page.values[name]

    with_a_used_broker(check)


def pushing(found: Receiver, *, interval_ms: int) -> dict[str, str]:
    """The environment of a broker that pushes there."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": found.address,
        "OTEL_METRIC_EXPORT_INTERVAL": str(interval_ms),
    }


def test_a_started_broker_pushes_to_the_receiver_of_the_environment(tmp_path: Path) -> None:
    with receiver() as found, broker_process(tmp_path, **pushing(found, interval_ms=100)) as broker:
        metric = found.wait("kafka_brokers", service__name="moldau")
        assert metric.gauge.data_points[0].as_int == 1
        assert found.wait("moldau.network.requests").sum.is_monotonic
        assert broker.stop()[0] == 0


def test_a_broker_that_stops_pushes_its_last_values(tmp_path: Path) -> None:
    hour_ms = 3_600_000
    with (
        receiver() as found,
        broker_process(tmp_path, **pushing(found, interval_ms=hour_ms)) as broker,
    ):
        asyncio.run(used(f"{broker.host}:{broker.port}"))
        code, log = broker.stop()
    assert code == 0
    assert "Traceback" not in log
    pushed = found.metrics(service__name="moldau")
    points = pushed["kafka_server_brokertopicmetrics_messagesin_total"].sum.data_points
    counts = {tuple(each.value.string_value for each in of.attributes): of.as_int for of in points}
    assert counts["orders",] == RECORDS


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    code, _, err = finished("broker", "start", "--otlp", "localhost:4318", home=tmp_path)
    assert code == 2
    assert "moldau.metrics.otlp.endpoint takes http://HOST:PORT" in err
    assert "Traceback" not in err
