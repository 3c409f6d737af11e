"""What a scrape does between two turns of the event loop is little, however many partitions a node
has."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest

from moldau.broker.api.node import Node
from moldau.broker.controller.image import Image
from moldau.broker.exposition.page import Page
from moldau.broker.exposition.partitions import AT_ONCE, logs, of_controller
from moldau.broker.log.names import TopicPartition

PARTITIONS = 2_000


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No collection takes away what a slice has made."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def most_objects_of_a_slice(slices: Iterator[None]) -> int:
    """Return how many more objects the collector follows after a slice, at most."""
    most, before = 0, gc.get_count()[0]
    for _ in slices:
        most = max(most, gc.get_count()[0] - before)
        before = gc.get_count()[0]
    return most


@pytest.mark.usefixtures("uncollected")
def test_no_slice_makes_an_object_for_each_log() -> None:
    log = SimpleNamespace(size_bytes=1, log_end_offset=1)
    directory = SimpleNamespace(logs={TopicPartition("a", n): log for n in range(PARTITIONS)})
    directories = SimpleNamespace(in_service=lambda: [directory])
    page = Page()

    most = most_objects_of_a_slice(logs(page, cast(Node, SimpleNamespace(directories=directories))))

    assert most < AT_ONCE * 4
    assert sum(piece.count('"} 1') for piece in page.pieces()) == 2 * PARTITIONS


@pytest.mark.usefixtures("uncollected")
def test_no_slice_makes_an_object_for_each_partition_of_the_cluster() -> None:
    led = SimpleNamespace(has_leader=True, leader=1, preferred_leader=1)
    topic = SimpleNamespace(name="a", partitions=dict.fromkeys(range(PARTITIONS), led))
    image = SimpleNamespace(
        topics=SimpleNamespace(by_id={1: topic}), brokers=SimpleNamespace(by_id={})
    )
    page = Page()

    most = most_objects_of_a_slice(of_controller(page, cast(Image, image)))

    assert most < AT_ONCE * 4
    text = "".join(page.pieces())
    assert f"kafka_controller_kafkacontroller_globalpartitioncount {PARTITIONS}\n" in text
