"""One scrape: gathers the series of a node in slices, between which requests are served.

Invariant: no slice runs for much longer than SLICE_NS; the event loop has a turn between two.

The series of consumer groups: committed offsets and lag, of the groups coordinated here.

The lag needs the high watermark of the partition, which this node knows if it has a replica; a
follower's is a moment behind the leader's. After an election it is left out until it is certain.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, TypeAlias

from moldau.broker.exposition import table
from moldau.broker.exposition.page import Page, escaped
from moldau.broker.exposition.partitions import led_partitions, logs, of_controller, topics
from moldau.broker.exposition.remote import remote_storage, write_remote
from moldau.broker.exposition.slices import AT_ONCE, pairs_of_now
from moldau.broker.exposition.table import OURS, Row
from moldau.broker.replication.ends import is_end_known
from moldau.broker.replication.traffic import TopicTraffic
from moldau.broker.share.piece import AcknowledgeType
from moldau.deferred import dataclass
from moldau.metrics import Metric, Registry, render_prometheus
from moldau.plugins.layers import platform_version
from moldau.protocol.messages import api as api_entry
from moldau.runtime.process_figures import process_figures

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.controller.image import Image
    from moldau.broker.network import NetworkMetrics
    from moldau.broker.server.channel import LocalController
    from moldau.broker.tiered.node_tier import NodeTier
    from moldau.link.http.hosted import RunningService
    from moldau.runtime import Clock


def traffic(page: Page, node: Node, tier: NodeTier | None = None) -> Iterator[None]:
    """Write the counters of each topic and their sums. Those of remote storage are written for the
    topics that have some."""
    remote = frozenset() if tier is None else tier.topics()
    counted = node.replicas.traffic
    for number, (topic, counts) in enumerate(counted.topics(node.image.topics.by_name)):
        if number % AT_ONCE == 0:
            yield
        _write(page, counts, topic)
        if topic in remote:
            write_remote(page, counts.remote, topic)
    total = TopicTraffic()
    for number, counts in enumerate(counted.parts()):
        if number % (AT_ONCE * 4) == 0:
            yield
        total.add(counts)
    _write(page, total)
    if tier is not None:
        write_remote(page, total.remote)
    page.add(table.replication_bytes_out, total.replication_bytes_out)
    yield
    for key, count in sorted(node.requests.items()):
        page.add(table.requests, count, api_entry(key).name)
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


_AT_ONCE: Final = 10


def shares(page: Page, node: Node) -> Iterator[None]:
    """Write the lines of every share partition that is loaded on this node."""
    for number, share in enumerate(list(node.shares)):
        if number % _AT_ONCE == 0:
            yield
        window = share.window
        if window is None or share.error is not None:
            continue
        partition = share.partition
        labels = (share.key.group_id, partition.topic, str(share.key.partition))
        if is_end_known(partition):
            behind = partition.high_watermark - window.start_offset - window.complete_count
            page.add(table.share_lag, max(behind, 0), *labels)
        page.add(table.share_in_flight, window.acquired_count, *labels)
    counts = node.shares.counts
    page.add(table.share_deliveries, counts.delivered)
    page.add(table.share_letters, node.dead_letters.count)
    page.add(table.share_letter_requests, node.dead_letters.requests)
    page.add(table.share_letter_failures, node.dead_letters.failures)
    for kind in AcknowledgeType:
        if kind is not AcknowledgeType.GAP:
            page.add(table.share_words, counts.acknowledged[kind], kind.name.lower())


def groups(page: Page, node: Node) -> Iterator[None]:
    """Write the lines of every group on this node."""
    add_offset, add_lag = page.adder(table.group_offset), page.adder(table.group_lag)
    group_count = offset_count = number = 0
    for _, shard in list(node.groups.loaded()):
        group_count += len(shard)
        for group in list(shard.offsets.groups()):
            name = escaped(group)
            for topic, partitions in pairs_of_now(shard.offsets.of_group(group)):
                offset_count += len(partitions)
                labels = f'consumergroup="{name}",topic="{escaped(topic)}"'
                total = lag = 0
                is_known = True
                for index, committed in pairs_of_now(partitions):
                    if number % AT_ONCE == 0:
                        yield
                    number += 1
                    place = f'{{{labels},partition="{index}"}}'
                    total += committed.offset
                    add_offset(f"kafka_consumergroup_current_offset{place} {committed.offset}")
                    partition = node.replicas.hosted.get((topic, index))
                    if partition is not None and not is_end_known(partition):
                        is_known = False
                    elif partition is not None:
                        behind = max(0, partition.high_watermark - committed.offset)
                        lag += behind
                        add_lag(f"kafka_consumergroup_lag{place} {behind}")
                page.add(table.group_offset_sum, total, group, topic)
                if is_known:
                    page.add(table.group_lag_sum, lag, group, topic)
    page.add(table.group_count, group_count)
    page.add(table.offset_count, offset_count)


_NS_PER_MS: Final = 1_000_000


def clients(page: Page, node: Node) -> Iterator[None]:
    """Write the figures of every client."""
    known = node.telemetry
    known.expire(node.runtime.clock.monotonic_ns() // _NS_PER_MS)
    page.add(table.client_instances, len(known.instances))
    for result, count in known.pushes.items():
        page.add(table.client_pushes, count, result)
    page.add(table.client_left_out, known.figures.left_out)
    for number, ((name, is_counter, labels), value) in enumerate(known.figures.series()):
        if number % AT_ONCE == 0:
            yield
        kind = "counter" if is_counter else "gauge"
        row = Row(name, kind, "A client pushed it (KIP-714).", origin=OURS)
        text = ",".join(f'{label}="{escaped(each)}"' for label, each in labels)
        page.adder(row)(f"{name}{{{text}}} {value}")


Turn: TypeAlias = Callable[[], Awaitable[None]]
SLICE_NS: Final = 500_000
_NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class ScrapedNode:
    """The parts of a running node that a scrape reads."""

    node_id: int
    registry: Registry
    network: NetworkMetrics
    controller: LocalController
    image: Image
    state: int
    """The broker's state as Kafka numbers it; 3 is running."""
    node: Node | None = None
    """None on a node that is only a controller."""
    tier: NodeTier | None = None
    """None without remote storage."""
    services: Mapping[str, RunningService | None] = field(default_factory=dict)
    """The services in the process by name; None for one that is not up."""

    @property
    def registries(self) -> list[Registry]:
        """The metrics of the node, and of the services that are up."""
        up = [each.metrics for each in self.services.values() if each is not None]
        return [self.registry, *up]


async def declared(registry: Registry, clock: Clock, turn: Turn) -> AsyncIterator[str]:
    """Yield the text of a registry in slices: some of its gauges are counted when they are read."""
    lines: list[str] = []
    began = clock.monotonic_ns()
    for metric in registry.each():
        lines.append(render_prometheus((metric,)))
        if clock.monotonic_ns() - began >= SLICE_NS:
            yield "".join(lines)
            lines.clear()
            await turn()
            began = clock.monotonic_ns()
    yield "".join(lines)
    await turn()


class Scraper:
    """Makes the pages, and remembers the last one for rates."""

    def __init__(self, clock: Clock, turn: Turn) -> None:
        """`turn` gives the event loop a turn between two slices."""
        self._clock = clock
        self._turn = turn
        self._busy_s = 0.0
        self._scraped_ns = clock.monotonic_ns()
        self._log_end = 0
        self._version = platform_version()  # read from files: not at each scrape

    async def scrape(self, observed: ScrapedNode | None) -> AsyncIterator[bytes]:
        """Yield the text in pieces. Without a node (it starts) there is only the process."""
        page = await self._page(observed)
        for piece in page.pieces():
            yield piece.encode()
            await self._turn()
        if observed is not None:
            for each in observed.registries:
                async for text in declared(each, self._clock, self._turn):
                    yield text.encode()

    async def metrics(self, observed: ScrapedNode) -> AsyncIterator[Metric]:
        """Yield the same as values, in slices too."""
        page = await self._page(observed)
        for metric in page.metrics():
            yield metric
            await self._turn()
        for each in observed.registries:
            for metric in each.each():
                yield metric
                await self._turn()

    async def _page(self, observed: ScrapedNode | None) -> Page:
        clock, page = self._clock, Page()
        began = clock.monotonic_ns()
        for _ in self._parts(page, observed):
            if clock.monotonic_ns() - began >= SLICE_NS:
                await self._turn()
                began = clock.monotonic_ns()
        return page

    def _parts(self, page: Page, observed: ScrapedNode | None) -> Iterator[None]:
        now_ns = self._clock.monotonic_ns()
        elapsed_s = max(1e-9, (now_ns - self._scraped_ns) / _NS_PER_S)
        self._scraped_ns = now_ns
        self._process(page, elapsed_s)
        yield
        if observed is None:
            return
        page.add(table.build_info, 1, self._version, str(observed.node_id))
        page.add(table.broker_state, observed.state)
        connections(page, observed.network)
        self._quorum(page, observed.controller, elapsed_s)
        _brokers(page, observed.image)
        is_active = observed.controller.active is not None
        page.add(table.active_controllers, int(is_active))
        yield
        if is_active:
            yield from of_controller(page, observed.image)
        for name, service in observed.services.items():
            page.add(table.service_up, int(service is not None), name)
        node = observed.node
        if node is not None:
            yield from led_partitions(page, node)
            yield from logs(page, node)
            yield from topics(page, node)
            yield from traffic(page, node, observed.tier)
            yield from groups(page, node)
            yield from shares(page, node)
            yield from clients(page, node)
            if observed.tier is not None:
                yield from remote_storage(page, observed.tier)
            directories = node.directories
            broken = len(directories.directories) - len(directories.in_service())
            page.add(table.offline_directories, len(directories.unopened) + broken)

    def _process(self, page: Page, elapsed_s: float) -> None:
        figures = process_figures()
        busy_s, self._busy_s = figures.thread_seconds - self._busy_s, figures.thread_seconds
        idle = min(1.0, max(0.0, 1.0 - busy_s / elapsed_s))
        page.add(table.network_idle, round(idle, 4))
        page.add(table.handler_idle, round(idle, 4))
        page.add(table.process_cpu, figures.cpu_seconds)
        page.add(table.process_start, figures.started_seconds)
        page.add(table.process_resident, figures.resident_bytes)
        page.add(table.process_virtual, figures.virtual_bytes)
        page.add(table.process_fds, figures.open_files)
        page.add(table.process_fds_max, figures.open_files_max)
        page.add(table.disk_read, figures.disk_read_bytes)
        page.add(table.disk_written, figures.disk_written_bytes)

    def _quorum(self, page: Page, controller: LocalController, elapsed_s: float) -> None:
        quorum, core = controller.quorum, controller.raft.core
        is_leading = quorum.is_leading
        role = core.role.name if core.member.is_voter else "observer"
        page.add(table.raft_state, 1, role.lower().replace("_", "-"))
        page.add(table.raft_leader, core.leader_id)
        page.add(table.raft_vote, core.state.voted_id)
        page.add(table.raft_epoch, core.epoch)
        page.add(table.raft_high_watermark, quorum.high_watermark)
        end = quorum.log_end_offset
        page.add(table.raft_log_end, end)
        rate = round(max(0, end - self._log_end) / elapsed_s, 3) if self._log_end else 0
        self._log_end = end
        page.add(table.raft_append_rate, rate if is_leading else 0)
        page.add(table.raft_fetch_rate, 0 if is_leading else rate)


def _brokers(page: Page, image: Image) -> None:
    live = [each for each in image.brokers.by_id.values() if not each.is_fenced]
    page.add(table.brokers, len(live))
    for each in live:
        first = each.endpoints[0] if each.endpoints else None
        address = "" if first is None else f"{first.host}:{first.port}"
        page.add(table.broker_info, 1, str(each.broker_id), address)
