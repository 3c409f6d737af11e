"""The series of consumer groups: committed offsets and lag, of the groups coordinated here.

The lag needs the high watermark of the partition, which this node knows if it has a replica; a
follower's is a moment behind the leader's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from moldau.broker.exposition import table
from moldau.broker.exposition.page import Page, escaped
from moldau.broker.exposition.slices import AT_ONCE, pairs_of_now

if TYPE_CHECKING:
    from moldau.broker.api.node import Node


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
                for index, committed in pairs_of_now(partitions):
                    if number % AT_ONCE == 0:
                        yield
                    number += 1
                    place = f'{{{labels},partition="{index}"}}'
                    total += committed.offset
                    add_offset(f"kafka_consumergroup_current_offset{place} {committed.offset}")
                    partition = node.replicas.hosted.get((topic, index))
                    if partition is not None:
                        behind = max(0, partition.high_watermark - committed.offset)
                        lag += behind
                        add_lag(f"kafka_consumergroup_lag{place} {behind}")
                page.add(table.group_offset_sum, total, group, topic)
                page.add(table.group_lag_sum, lag, group, topic)
    page.add(table.group_count, group_count)
    page.add(table.offset_count, offset_count)
