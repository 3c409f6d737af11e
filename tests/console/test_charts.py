"""Charts of the past: whose numbers they are, what is missing in them, and how they are drawn."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from moldau.client import Producer
from moldau.console import refresher
from moldau.console.apis import prometheus as queries
from moldau.console.apis.nodes import NODES, url_of
from moldau.console.apis.prometheus import PROMETHEUS, PrometheusApi
from moldau.console.charts import Past, added_up, charts, of_readings
from moldau.console.pages import charts as pages
from moldau.errors import ConfigError
from moldau.metrics.ring import EVERY_MS, SeriesValues
from moldau.runtime.real import RealRuntime
from moldau.testing import EmbeddedBroker
from tests.console.observed import GREW, fill, observed
from tests.console.shown import browser, use
from tests.metrics.prometheus_server import prometheus


def test_readings_of_nodes_are_added_up_and_an_unknown_part_makes_the_sum_unknown() -> None:
    ours = (("a", "b"), [(1_000, 1, 2), (EVERY_MS, 3, 4)])
    theirs = (("a", "b"), [(EVERY_MS + 900, 10, None), (2 * EVERY_MS, 5, 6)])
    past = added_up("nodes", [ours, theirs])
    assert past.at_ms == [0, EVERY_MS, 2 * EVERY_MS]
    assert past.columns == {"a": [1, 13, 5], "b": [2, None, 6]}
    assert past.is_known
    assert not added_up("nodes", [(("a",), [(0, None)])]).is_known


def test_two_readings_of_a_node_at_about_the_same_time_are_not_added_up() -> None:
    past = added_up("nodes", [(("lag",), [(EVERY_MS - 1, 50), (EVERY_MS, 50), (2 * EVERY_MS, 60)])])
    assert past.columns == {"lag": [50, 60]}


def test_a_chart_has_a_gap_where_a_value_is_unknown_or_too_long_away() -> None:
    readings = [SeriesValues(at, (value,)) for at, value in
                ((0, 0), (10, 50), (20, math.nan), (30, 25), (40, 100), (90, 0))]  # fmt: skip
    (chart,) = charts(of_readings("looks", "lag", readings, 10))
    (line,) = chart.lines
    height = [120, 60, 90, 0, 120]
    assert line.paths == [
        f"0.0,{height[0]:.1f} 88.9,{height[1]:.1f}",
        f"266.7,{height[2]:.1f} 355.6,{height[3]:.1f}",
        f"800.0,{height[4]:.1f}",
    ]
    assert (chart.most, line.values[2]) == (100, None)
    assert json.loads(chart.data)["lines"] == [["lag", [0, 50, None, 25, 100, 0]]]
    assert charts(Past("looks", at_ms=[1], columns={"lag": [1]})) == []


@pytest.mark.parametrize(
    ("listener", "host", "url"),
    [
        ("0.0.0.0:9404", "node-1", "http://node-1:9404"),
        (":9404", "node-1", "http://node-1:9404"),
        ("[::]:9404", "fe80::1", "http://[fe80::1]:9404"),
        ("9404", "localhost", "http://127.0.0.1:9404"),
        ("127.0.0.1:9404", "node-1", None),
        ("inside:9404", "node-1", "http://inside:9404"),
    ],
)
def test_where_a_nodes_metrics_are(listener: str, host: str, url: str | None) -> None:
    assert url_of(listener, host) == url


def drawn(page: str) -> dict[str, Any]:
    """The charts of a page by their titles."""
    found = re.findall(r'<figcaption>([^:]+):.*?data-plot="([^"]*)"', page, re.DOTALL)
    return {title: json.loads(unescape(data)) for title, data in found}


def last(charts: dict[str, Any], title: str) -> float:
    """The newest value of the first line of a chart; 0 if there is none yet."""
    lines = charts[title]["lines"] if title in charts else []
    return lines[0][1][-1] or 0 if lines else 0


async def shown(client: Any, path: str) -> str:
    """Return a page with its charts, which it loads afterwards where they are late, as a browser
    does."""
    page: str = (await client.get(path)).text
    late = re.search(r'hx-get="([^"]*)" hx-trigger="load', page)
    return page + (await client.get(unescape(late[1]))).text if late else page


@asynccontextmanager
async def hanging() -> AsyncIterator[int]:
    """Yield the port of a server that takes requests and answers none."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:  # also of a client that is there to the end
            writer.transport.abort()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def growth_began(chart: dict[str, Any]) -> float:
    """The time of the last reading before the line begins to rise."""
    (_, values) = chart["lines"][0]
    rise = next(index for index, value in enumerate(values) if value > values[0])
    at: float = chart["at"][rise - 1]
    return at


@pytest.mark.real
def test_a_new_console_shows_that_a_lag_began_to_grow_eight_minutes_ago() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker, observed(broker) as (url, recent):
            await use(broker.bootstrap_servers)
            await fill(broker, recent)
            settings = {NODES: url}
            async with browser(broker.bootstrap_servers, settings=settings) as client:
                for path in ("/groups/billing", "/topics/orders"):
                    page = await shown(client, path)
                    lag = drawn(page)["Lag"]
                    assert growth_began(lag) == GREW / 1000
                    assert (lag["lines"][0][1][0], lag["lines"][0][1][-1]) == (3, 3 + 96)
                    assert "<polyline" in page
                    assert "own numbers" in page
                rates = drawn(await shown(client, "/topics/orders"))
                assert rates["Records in, a second"]["lines"][0][1][-1] == pytest.approx(0.2)
                for path in ("/", "/brokers/1"):
                    titles = drawn(await shown(client, path)).keys()
                    assert titles == {"Bytes a second", "Records in, a second", "Failed a second"}

    asyncio.run(run())


@pytest.mark.real
def test_a_node_that_is_down_or_of_another_cluster_is_named_and_keeps_no_page_waiting() -> None:
    async def run() -> None:
        async with (
            EmbeddedBroker() as broker,
            EmbeddedBroker() as other,
            observed(other) as (url, _),
        ):
            await use(broker.bootstrap_servers)

            async with hanging() as port:
                settings = {NODES: f"http://127.0.0.1:{port}"}
                async with browser(broker.bootstrap_servers, settings=settings) as client:
                    page = (await client.get("/")).text
                    assert f"http://127.0.0.1:{port} has not answered within 0.15 s" in page
                    assert 'hx-trigger="load, every' in page
            settings = {NODES: f"{url} http://127.0.0.1:1"}
            async with browser(broker.bootstrap_servers, settings=settings) as client:
                page = (await client.get("/charts/cluster")).text
                assert f"{url} is of another cluster" in page
                assert "no node answers at http://127.0.0.1:1" in page

    asyncio.run(run())


@pytest.mark.real
def test_kafka_without_a_past_is_looked_at_by_the_console(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        monkeypatch.setattr(pages, "LOOK_MS", 1)
        monkeypatch.setattr(refresher, "LOOK_MS", 1)
        async with EmbeddedBroker() as broker, browser(broker.bootstrap_servers) as client:
            await use(broker.bootstrap_servers)
            servers = broker.bootstrap_servers
            found: dict[str, Any] = {}
            while not found:
                async with Producer(bootstrap_servers=servers) as producer:
                    await producer.send_and_wait("orders", b"x")
                page = (await client.get("/charts/topic/orders")).text
                found = drawn(page)
            assert found.keys() == {"Records in, a second"}
            assert all(each > 0 for each in found["Records in, a second"]["lines"][0][1])
            assert "what this console saw" in page
            none = (await client.get("/charts/cluster")).text
            assert "Kafka tells no rates by its protocol" in none
            assert (await client.get("/charts/none/x")).status_code == 404
            assert "has no --prometheus" in (await client.get("/topics/orders?range=6h")).text

    asyncio.run(run())


@pytest.mark.real
@pytest.mark.deep
def test_longer_ranges_come_from_a_real_prometheus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        for name, value in (("POINTS", 3_600), ("STEP_MIN_S", 1), ("RATE_MIN_S", 5)):
            monkeypatch.setattr(queries, name, value)
        async with EmbeddedBroker() as broker, observed(broker) as (url, _):
            servers = broker.bootstrap_servers
            await use(servers)
            with prometheus(tmp_path, url.removeprefix("http://")) as port:
                settings = {PROMETHEUS: f"http://127.0.0.1:{port}?job=moldau"}
                async with (
                    browser(servers, settings=settings) as client,
                    Producer(bootstrap_servers=servers) as producer,
                ):

                    async def until(
                        path: str, holds: Callable[[dict[str, Any]], bool] = bool
                    ) -> dict[str, Any]:
                        while True:
                            await producer.send_and_wait("orders", b"x" * 100, partition=1)
                            found = drawn((await client.get(f"/charts/{path}?range=1h")).text)
                            if found and last(found, next(iter(found))) and holds(found):
                                return found

                    topic = await until("topic/orders", lambda found: last(found, "Lag") > 3)
                    assert len(topic) == 4
                    assert last(topic, "Records in, a second") > 0
                    assert (await until("group/billing")).keys() == {"Lag"}
                    for path in ("cluster", "broker/1"):
                        assert len(await until(path)) == 3
                    page = (await client.get("/topics/orders?range=6h")).text
                    assert 'href="?range=7d"' in page
                settings = {PROMETHEUS: f"http://127.0.0.1:{port}?job=other"}
                async with browser(servers, settings=settings) as client:
                    page = (await client.get("/charts/topic/orders?range=1h")).text
                    assert "has no such series" in page

    asyncio.run(run())


@pytest.mark.real
def test_a_prometheus_that_is_slow_or_down_keeps_no_page_waiting() -> None:
    async def run() -> None:
        async with EmbeddedBroker() as broker, hanging() as port:
            await use(broker.bootstrap_servers)
            for each, why in (
                (f"http://127.0.0.1:{port}", "has not answered within 0.15 s"),
                ("http://127.0.0.1:1", "no Prometheus answers at http://127.0.0.1:1"),
            ):
                settings = {PROMETHEUS: each}
                async with browser(broker.bootstrap_servers, settings=settings) as client:
                    page = await client.get("/topics/orders?range=6h")
                    assert (page.status_code, why in page.text) == (200, True)

    asyncio.run(run())


@pytest.mark.parametrize("url", ["ftp://x", "http://x?job", "http://x?a-b=c", "http://x?"])
def test_an_address_of_prometheus_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        PrometheusApi(RealRuntime("test"), url)


def test_names_in_queries_are_quoted() -> None:
    api = PrometheusApi(RealRuntime("test"), "http://x?env=eu")
    asked = api.queries("group", 'a"} or vector(1)\n', 60)["lag"]
    quoted = 'a\\"} or vector(1)\\n'
    assert asked.startswith(f'sum(kafka_consumergroup_lag{{env="eu",consumergroup="{quoted}"}}')
