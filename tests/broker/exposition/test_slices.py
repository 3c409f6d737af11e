"""What a scrape does between two turns of the event loop is little, however many partitions a node
has."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from moldau.broker.api.node import Node
from moldau.broker.api.telemetry import ClientFigures
from moldau.broker.controller.image import Image
from moldau.broker.exposition import table
from moldau.broker.exposition.page import Page
from moldau.broker.exposition.partitions import logs, of_controller
from moldau.broker.exposition.scrape import SLICE_NS, clients, declared, groups, traffic
from moldau.broker.exposition.slices import AT_ONCE
from moldau.broker.log.names import TopicPartition
from moldau.broker.replication.traffic import TopicTraffic, Traffic
from moldau.metrics import Registry
from moldau.metrics.otlp_reading import Figure
from tests.broker.exposition.scraped import Scraped
from tests.uncollected import no_collections

PARTITIONS = 2_000
GROUPS = 2_000
TOPICS = 10_000


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No collection takes away what a slice has made."""
    with no_collections():
        yield


def most_objects_of_a_slice(scrape: Callable[[Page], Iterator[None]]) -> tuple[int, Page]:
    """Return how many more objects the collector follows after a slice, at most, and the page.

    Each slice counts as the least of three scrapes, since what other threads of the process make
    meanwhile, such as those of a broker, counts in each.
    """
    scrapes = []
    for _ in range(3):
        page = Page()
        scrapes.append([*_objects_of_slices(scrape(page))])
    return max(map(min, zip(*scrapes, strict=True))), page


def _objects_of_slices(slices: Iterator[None]) -> Iterator[int]:
    before = gc.get_count()[0]
    for _ in slices:
        yield gc.get_count()[0] - before
        before = gc.get_count()[0]


@pytest.mark.usefixtures("uncollected")
def test_no_slice_makes_an_object_for_each_log() -> None:
    log = SimpleNamespace(size_bytes=1, log_end_offset=1)
    directory = SimpleNamespace(logs={TopicPartition("a", n): log for n in range(PARTITIONS)})
    directories = SimpleNamespace(in_service=lambda: [directory])
    node = cast(Node, SimpleNamespace(directories=directories))

    most, page = most_objects_of_a_slice(lambda page: logs(page, node))

    assert most < AT_ONCE * 4
    assert sum(piece.count('"} 1') for piece in page.pieces()) == 2 * PARTITIONS


@pytest.mark.usefixtures("uncollected")
def test_no_slice_makes_an_object_for_each_partition_of_the_cluster() -> None:
    led = SimpleNamespace(has_leader=True, leader=1, preferred_leader=1)
    topic = SimpleNamespace(name="a", partitions=dict.fromkeys(range(PARTITIONS), led))
    image = SimpleNamespace(
        topics=SimpleNamespace(by_id={1: topic}), brokers=SimpleNamespace(by_id={})
    )

    most, page = most_objects_of_a_slice(lambda page: of_controller(page, cast(Image, image)))

    assert most < AT_ONCE * 4
    text = "".join(page.pieces())
    assert f"kafka_controller_kafkacontroller_globalpartitioncount {PARTITIONS}\n" in text


@pytest.mark.usefixtures("uncollected")
def test_no_slice_makes_an_object_for_each_offset_of_a_group() -> None:
    one = SimpleNamespace(offset=1)
    offsets = {f"group-{n}": {"a": {0: one}} for n in range(GROUPS)}
    offsets["wide"] = {f"topic-{n}": {0: one} for n in range(TOPICS)}
    offsets["deep"] = {"a": dict.fromkeys(range(PARTITIONS), one)}
    shard = Shard(offsets)
    node = SimpleNamespace(
        groups=SimpleNamespace(loaded=lambda: [(0, shard)]),
        replicas=SimpleNamespace(hosted={}),
    )

    most, page = most_objects_of_a_slice(lambda page: groups(page, cast(Node, node)))

    assert most < AT_ONCE * 4
    seen = Scraped("".join(page.pieces()))
    assert seen.value(table.group_count.name) == GROUPS + 2
    assert seen.value(table.offset_count.name) == GROUPS + TOPICS + PARTITIONS
    sums = seen.values[table.group_offset_sum.name]
    assert sums[frozenset({("consumergroup", "deep"), ("topic", "a")})] == PARTITIONS


class Shard:
    """The committed offsets of groups, which a scrape reads group by group alone."""

    def __init__(self, by_group: dict[str, dict[str, dict[int, SimpleNamespace]]]) -> None:
        self.by_group = by_group
        self.offsets = SimpleNamespace(groups=by_group.keys, of_group=by_group.__getitem__)

    def __len__(self) -> int:
        return len(self.by_group)


@pytest.mark.usefixtures("uncollected")
def test_no_slice_makes_an_object_or_an_addition_for_each_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted, added = Traffic(), 0
    for number in range(TOPICS):
        counted.of(f"topic-{number}").produces = 1
    add = TopicTraffic.add

    def count(total: TopicTraffic, other: TopicTraffic) -> None:
        nonlocal added
        added += 1
        add(total, other)

    def slices(page: Page) -> Iterator[None]:
        nonlocal added
        for _ in traffic(page, cast(Node, node)):
            assert added <= AT_ONCE * 4
            added = 0
            yield

    monkeypatch.setattr(TopicTraffic, "add", count)
    node = SimpleNamespace(
        replicas=SimpleNamespace(traffic=counted, purgatory=()),
        image=SimpleNamespace(topics=SimpleNamespace(by_name=lambda name: name != "topic-7")),
        requests={},
    )

    most, page = most_objects_of_a_slice(slices)

    assert most < AT_ONCE * 4
    produces = Scraped("".join(page.pieces())).values[table.produce_requests.name]
    assert produces[frozenset()] == TOPICS
    assert len(produces) == TOPICS  # topic-7 is gone, and counts in the sum


@pytest.mark.usefixtures("uncollected")
def test_no_slice_makes_an_object_for_each_series_of_a_client() -> None:
    figures = ClientFigures()
    figures.take(b"1", (), [Figure(f"a.{n}", (), 1.0, False, False) for n in range(1_000)])
    telemetry = SimpleNamespace(
        expire=lambda now_ms: None, instances=(), pushes={}, figures=figures
    )
    runtime = SimpleNamespace(clock=SimpleNamespace(monotonic_ns=lambda: 0))
    node = SimpleNamespace(telemetry=telemetry, runtime=runtime)

    most, page = most_objects_of_a_slice(lambda page: clients(page, cast(Node, node)))

    assert most < AT_ONCE * 4
    assert sum(piece.count(" 1.0\n") for piece in page.pieces()) == 1_000


def test_gauges_that_are_counted_when_read_are_read_in_slices() -> None:
    registry, clock, turns = Registry(), StepClock(), 0

    def read() -> int:
        clock.now_ns += SLICE_NS
        return 1

    async def turn() -> None:
        nonlocal turns
        turns += 1

    for name in ("a", "b", "c"):
        registry.read_gauge(name, "Counted.", read=read)

    async def text() -> str:
        return "".join([each async for each in declared(registry, clock, turn)])

    assert Scraped(asyncio.run(text())).kinds.keys() == {"a", "b", "c"}
    assert turns > 3


class StepClock:
    """A clock that the gauges of a test move on."""

    now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def monotonic(self) -> float:
        return self.now_ns / 1e9

    def wall_ms(self) -> int:
        return self.now_ns // 1_000_000


def test_a_topic_deleted_while_its_count_is_summed_up_counts_once() -> None:
    """A scrape and a push of metrics may run beside each other."""
    counted = Traffic()
    counted.of("a").produces = counted.of("b").produces = 3
    counted.unknown().produces = 1
    parts = counted.parts()

    left = [name for name, _ in counted.topics(lambda name: name == "a")]

    assert left == ["a"]
    assert sum(each.produces for each in parts) == 7
    assert sum(each.produces for each in counted.parts()) == 7


def test_a_page_frees_its_lines_while_it_is_sent() -> None:
    page = Page()
    page.add(table.group_count, 1)
    page.add(table.offset_count, 2)

    text = "".join(page.pieces())

    assert len(Scraped(text).values) == 2
    assert list(page.pieces()) == []
