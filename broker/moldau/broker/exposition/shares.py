"""The series of share groups: of the partitions that members read here, and what they did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from moldau.broker.exposition import table
from moldau.broker.share.piece import AcknowledgeType

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.exposition.page import Page

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
        behind = partition.high_watermark - window.start_offset - window.complete_count
        page.add(table.share_lag, max(behind, 0), *labels)
        page.add(table.share_in_flight, window.acquired_count, *labels)
    counts = node.shares.counts
    page.add(table.share_deliveries, counts.delivered)
    page.add(table.share_letters, node.dead_letters.count)
    for kind in AcknowledgeType:
        if kind is not AcknowledgeType.GAP:
            page.add(table.share_words, counts.acknowledged[kind], kind.name.lower())
