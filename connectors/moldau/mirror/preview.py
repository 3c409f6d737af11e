"""What a mirror would make and copy, without doing it: `moldau mirror --dry-run`."""

from __future__ import annotations

from collections.abc import Iterator

from moldau.client import EARLIEST, LATEST, TopicPartition
from moldau.client.sync import Admin
from moldau.connect.installed.plugins import resolved
from moldau.mirror.clusters import open_admin, reads_committed
from moldau.mirror.copies import TopicCopies
from moldau.mirror.flows import CHECKPOINT, Flow
from moldau.mirror.group_offsets import chosen_groups
from moldau.mirror.settings import CheckpointConfig, SourceMirrorConfig

Row = tuple[str, str, str, str, str]
HEADER = ("TOPIC", "COPY", "PARTITIONS", "RECORDS", "ACTION")


def preview(flow: Flow) -> tuple[list[Row], list[str]]:
    """Return a row for each topic of a flow, and its groups. Raise ConnectError or KafkaError if a
    cluster does not answer."""
    props, _ = resolved(flow.config, flow.worker)
    config = SourceMirrorConfig.of(props)
    timeout_ms = config.admin_timeout_ms
    with (
        open_admin(props, "source", timeout_ms) as source,
        open_admin(props, "target", timeout_ms) as target,
    ):
        copies = TopicCopies(config, source, target)
        rows = list(_rows(copies, source, is_committed=reads_committed(props)))
        return rows, _groups(flow, source)


def _rows(copies: TopicCopies, source: Admin, *, is_committed: bool) -> Iterator[Row]:
    topics = copies.topics()
    changes = copies.changes(topics)
    places = [TopicPartition(topic, n) for topic, count in topics.items() for n in range(count)]
    begins = source.list_offsets(dict.fromkeys(places, EARLIEST)) if places else {}
    ends = (
        source.list_offsets(dict.fromkeys(places, LATEST), is_committed=is_committed)
        if places
        else {}
    )
    for topic, count in topics.items():
        remote = copies.route.remote(topic)
        mine = [where for where in places if where.topic == topic]
        records = sum(ends[where].offset - begins[where].offset for where in mine)
        action = "copy"
        if remote in changes.create:
            action = "create and copy"
        elif remote in changes.grow:
            action = f"add partitions up to {count}, and copy"
        yield topic, remote, str(count), str(records), action


def _groups(flow: Flow, source: Admin) -> list[str]:
    if CHECKPOINT not in flow.connectors:
        return []
    props, _ = resolved(flow.connectors[CHECKPOINT], flow.worker)
    return chosen_groups(CheckpointConfig.of(props), source)
