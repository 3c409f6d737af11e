"""The series of partitions: those that this node leads, and what it sums up of them.

Each partition costs a dozen lines, so this is the part that decides how long a scrape takes. It
yields after a few partitions, so that requests are served in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from moldau.broker.exposition import table
from moldau.broker.exposition.page import Page, escaped
from moldau.broker.exposition.slices import AT_ONCE, pairs_of_now
from moldau.broker.replication.ends import is_end_known

if TYPE_CHECKING:
    from moldau.broker.api.node import Node
    from moldau.broker.controller.image import Image

_NO_LEADER: Final = -1


def led_partitions(page: Page, node: Node) -> Iterator[None]:
    """Write a line of each series for every partition that this node leads."""
    add_current, add_oldest = page.adder(table.current_offset), page.adder(table.oldest_offset)
    add_replicas, add_isr = page.adder(table.replicas), page.adder(table.in_sync_replicas)
    add_leader, add_preferred = page.adder(table.leader), page.adder(table.leader_is_preferred)
    add_under = page.adder(table.under_replicated)
    add_at_min, add_under_min = page.adder(table.at_min_isr), page.adder(table.under_min_isr)
    add_count, add_stable = page.adder(table.replicas_count), page.adder(table.stable_offset_lag)
    node_id, by_name = node.node_id, node.image.topics.by_name
    led = under = at_min = under_min = 0
    for number, partition in enumerate(list(node.replicas)):
        if number % AT_ONCE == 0:
            yield
        if not partition.is_leader:
            continue
        leading = partition.leadership
        index, log = partition.index, partition.offsets
        labels = f'{{topic="{escaped(partition.topic)}",partition="{index}"}}'
        in_sync, needed = leading.in_sync_count, leading.min_isr
        count = leading.replica_count
        topic = by_name(partition.topic)
        known = None if topic is None else topic.partitions.get(index)
        preferred = 1 if known is not None and known.replicas[0] == node_id else 0
        high = log.high_watermark
        is_under = int(in_sync < count)
        led += 1
        under += is_under
        at_min += in_sync == needed
        under_min += in_sync < needed
        if is_end_known(partition):
            add_current(f"kafka_topic_partition_current_offset{labels} {high}")
        add_oldest(f"kafka_topic_partition_oldest_offset{labels} {log.log_start_offset}")
        add_replicas(f"kafka_topic_partition_replicas{labels} {count}")
        add_isr(f"kafka_topic_partition_in_sync_replica{labels} {in_sync}")
        add_leader(f"kafka_topic_partition_leader{labels} {node_id}")
        add_preferred(f"kafka_topic_partition_leader_is_preferred{labels} {preferred}")
        add_under(f"kafka_topic_partition_under_replicated_partition{labels} {is_under}")
        add_at_min(f"kafka_cluster_partition_atminisr{labels} {int(in_sync == needed)}")
        add_under_min(f"kafka_cluster_partition_underminisr{labels} {int(in_sync < needed)}")
        add_count(f"kafka_cluster_partition_replicascount{labels} {count}")
        open_count = high - log.last_stable_offset
        add_stable(f"kafka_cluster_partition_laststableoffsetlag{labels} {open_count}")
    page.add(table.leader_count, led)
    page.add(table.partition_count, len(node.replicas.hosted))
    page.add(table.under_replicated_count, under)
    page.add(table.at_min_isr_count, at_min)
    page.add(table.under_min_isr_count, under_min)


def logs(page: Page, node: Node) -> Iterator[None]:
    """Write size and end of each log on this node, of led and of followed partitions."""
    add_size, add_end = page.adder(table.log_size), page.adder(table.log_end_offset)
    for directory in list(node.directories.in_service()):
        yield
        for number, (place, log) in enumerate(pairs_of_now(directory.logs)):
            if number % AT_ONCE == 0:
                yield
            labels = f'{{topic="{escaped(place.topic)}",partition="{place.partition}"}}'
            add_size(f"kafka_log_log_size{labels} {log.size_bytes}")
            add_end(f"kafka_log_log_logendoffset{labels} {log.log_end_offset}")


def topics(page: Page, node: Node) -> Iterator[None]:
    """Write the number of partitions of each topic, by the node that leads the first of them."""
    add = page.adder(table.topic_partitions)
    for number, topic in enumerate(list(node.image.topics.by_id.values())):
        if number % AT_ONCE == 0:
            yield
        first = topic.partitions.get(0)
        if first is not None and first.leader == node.node_id:
            add(f'kafka_topic_partitions{{topic="{escaped(topic.name)}"}} {len(topic.partitions)}')


def of_controller(page: Page, image: Image) -> Iterator[None]:
    """Write what the active controller knows of all partitions."""
    count = offline = imbalanced = 0
    for topic in list(image.topics.by_id.values()):
        for index, partition in pairs_of_now(topic.partitions):
            if count % (AT_ONCE * 4) == 0:
                yield
            count += 1
            if not partition.has_leader:
                offline += 1
                page.add(table.leader, _NO_LEADER, topic.name, str(index))
                page.add(table.under_replicated, 1, topic.name, str(index))
            elif partition.leader != partition.preferred_leader:
                imbalanced += 1
    brokers = image.brokers.by_id.values()
    page.add(table.active_brokers, sum(not each.is_fenced for each in brokers))
    page.add(table.fenced_brokers, sum(each.is_fenced for each in brokers))
    page.add(table.global_topics, len(image.topics.by_id))
    page.add(table.global_partitions, count)
    page.add(table.offline_partitions, offline)
    page.add(table.preferred_imbalance, imbalanced)
