"""What a scrape of `/metrics` costs a broker with many partitions, and counting a produce.

The page is made in the broker's own process, slice by slice, as the HTTP server makes it; the loop
time is the CPU time of the slices. The cost of counting is that of the added
instructions, to set beside a produce (`bench produce`): the difference is below what a comparison
of two processes can see.
"""

from __future__ import annotations

import asyncio
import time
import timeit
from functools import partial
from typing import Final, cast

from moldau.broker.exposition.node import ObservedBroker
from moldau.broker.exposition.page import Page
from moldau.broker.exposition.scrape import SLICE_NS, Scraper
from moldau.broker.main.embedded import EmbeddedNode
from moldau.broker.replication.traffic import TopicTraffic
from moldau.client import Admin, NewTopic
from moldau.runtime.real import RealClock
from moldau.testing import EmbeddedBroker

PARTITIONS: Final = 10_000
TOPICS: Final = 100
SCRAPES: Final = 5


class Slices:
    """The times of the slices of one scrape, in nanoseconds."""

    def __init__(self) -> None:
        self.gathering: list[int] = []
        self.writing: list[int] = []
        self.size_bytes = 0

    def total_ms(self) -> float:
        return (sum(self.gathering) + sum(self.writing)) / 1e6

    def longest_ms(self) -> float:
        return max(self.gathering + self.writing) / 1e6


def measure(observed: ObservedBroker) -> Slices:
    """Make one page, and time each slice as `Scraper.scrape` cuts them."""
    slices, page = Slices(), Page()
    scraper = Scraper(RealClock(), partial(asyncio.sleep, 0))
    began = time.thread_time_ns()
    for _ in scraper._parts(page, observed.observed()):
        now = time.thread_time_ns()
        if now - began >= SLICE_NS:
            slices.gathering.append(now - began)
            began = time.thread_time_ns()
    slices.gathering.append(time.thread_time_ns() - began)
    began = time.thread_time_ns()
    for piece in page.pieces():
        slices.size_bytes += len(piece.encode())
        now = time.thread_time_ns()
        slices.writing.append(now - began)
        began = now
    return slices


def counting_ns() -> float:
    """The time of what a produce of one batch counts."""
    traffic, records = TopicTraffic(), b"x" * 100

    def count() -> None:
        counted = traffic
        counted.produces += 1
        counted.bytes_in += len(records)
        counted.messages_in += 5 - 5 + 1

    def nothing() -> None:
        return

    rounds = 200_000
    least = min(timeit.repeat(count, number=rounds, repeat=5, timer=time.thread_time))
    return (
        (least - min(timeit.repeat(nothing, number=rounds, repeat=5, timer=time.thread_time)))
        / rounds
        * 1e9
    )


async def _measured() -> list[Slices]:
    async with EmbeddedBroker() as broker:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            for number in range(TOPICS):
                await admin.create_topic(NewTopic(f"topic-{number}", PARTITIONS // TOPICS))
        observed = ObservedBroker(cast(EmbeddedNode, broker._broker()).broker)
        return [measure(observed) for _ in range(SCRAPES)]


def page(machine: str, command: str) -> str:
    """Return the committed page."""
    found = sorted(asyncio.run(_measured()), key=Slices.total_ms)
    median = found[len(found) // 2]
    return "\n".join(
        (
            "# Scrapes of a broker's metrics",
            "",
            f"- {machine}\n- `{command}`",
            "",
            f"One node with {PARTITIONS:,} partitions in {TOPICS} topics; the median of {SCRAPES}.",
            "",
            "| what | measured | goal |",
            "|-|-|-|",
            f"| loop time of a scrape | {median.total_ms():.0f} ms | 100 ms |",
            f"| longest slice | {median.longest_ms():.1f} ms | 2 ms |",
            f"| size | {median.size_bytes / 1e6:.1f} MB | |",
            f"| counting, a produce of one batch | {counting_ns():.0f} ns | 1 % of a produce |",
            "",
        )
    )
