"""The series of what clients produce and fetch, and of the requests and connections of the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from moldau.broker.exposition import table
from moldau.broker.exposition.page import Page
from moldau.broker.exposition.slices import AT_ONCE
from moldau.broker.replication.traffic import TopicTraffic
from moldau.protocol.messages import API

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.network import NetworkMetrics


def traffic(page: Page, node: Node) -> Iterator[None]:
    """Write the counters of each topic and their sums."""
    counted = node.replicas.traffic
    for number, (topic, counts) in enumerate(counted.topics(node.image.topics.by_name)):
        if number % AT_ONCE == 0:
            yield
        _write(page, counts, topic)
    total = TopicTraffic()
    for number, counts in enumerate(counted.parts()):
        if number % (AT_ONCE * 4) == 0:
            yield
        total.add(counts)
    _write(page, total)
    page.add(table.replication_bytes_out, total.replication_bytes_out)
    yield
    for key, count in sorted(node.requests.items()):
        page.add(table.requests, count, API[key].name)
    page.add(table.purgatory, len(node.replicas.purgatory))


def _write(page: Page, counts: TopicTraffic, *topic: str) -> None:
    page.add(table.bytes_in, counts.bytes_in, *topic)
    page.add(table.bytes_out, counts.bytes_out, *topic)
    page.add(table.messages_in, counts.messages_in, *topic)
    page.add(table.produce_requests, counts.produces, *topic)
    page.add(table.fetch_requests, counts.fetches, *topic)
    page.add(table.failed_produces, counts.failed_produces, *topic)
    page.add(table.failed_fetches, counts.failed_fetches, *topic)


def connections(page: Page, metrics: NetworkMetrics) -> None:
    """Write the connections of each listener."""
    for labels, gauge in metrics.active.points():
        page.add(table.connections, gauge.value, *(value for _, value in labels))
    for labels, counter in metrics.opened.points():
        page.add(table.connections_created, counter.value, *(value for _, value in labels))
