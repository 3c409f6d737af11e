"""What a mirror would make and copy, without doing it: `moldau mirror --dry-run`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.client import EARLIEST, LATEST, TopicPartition
from moldau.client import Admin as AsyncAdmin
from moldau.client.sync import Admin
from moldau.connect.installed.plugins import resolved
from moldau.deferred import dataclass
from moldau.mirror.clusters import client_settings, hidden_topics, open_admin, reads_committed
from moldau.mirror.copies import TopicCopies
from moldau.mirror.flows import CHECKPOINT, Flow
from moldau.mirror.group_offsets import chosen_groups
from moldau.mirror.settings import CheckpointConfig, SourceMirrorConfig
from moldau.mirror.topics import Route
from moldau.runtime import Runtime
from moldau.runtime.threaded import ThreadedRuntime

Row = tuple[str, str, str, str, str]
HEADER = ("TOPIC", "COPY", "PARTITIONS", "RECORDS", "ACTION")


@dataclass(frozen=True, slots=True)
class Preview:
    """What a flow would do."""

    rows: list[Row]
    """A row for each topic."""
    groups: list[str]
    warnings: list[str]
    """A line if topics may be hidden, and for each list with expressions that match nothing of the
    source."""


def preview(flow: Flow) -> Preview:
    """Return what a flow would do. Raise ConnectError or KafkaError if a cluster does not answer,
    or if both are one."""
    props, _ = resolved(flow.config, flow.worker)
    config = SourceMirrorConfig.of(props)
    timeout_ms = config.admin_timeout_ms
    with (
        open_admin(props, "source", timeout_ms) as source,
        open_admin(props, "target", timeout_ms) as target,
    ):
        copies = TopicCopies(config, source, target)
        copies.check_clusters()
        rows = list(_rows(copies, source, is_committed=reads_committed(props)))
        unmatched = config.route().topics.unmatched([each.name for each in source.list_topics()])
        lines = _hidden(props, config.route())
        if unmatched:
            lines.append(f"topics that the source does not have: {', '.join(unmatched)}")
        groups, lines_of_groups = _groups(flow, source)
        return Preview(rows, groups, [*lines, *lines_of_groups])


def _hidden(props: Mapping[str, str], route: Route) -> list[str]:
    async def look(runtime: Runtime) -> str | None:
        async with AsyncAdmin(client_settings(props, "source", "admin"), runtime=runtime) as admin:
            return await hidden_topics(admin, route)

    with ThreadedRuntime("mirror preview") as threaded:
        line = threaded.run(look)
    return [] if line is None else [line]


def _rows(copies: TopicCopies, source: Admin, *, is_committed: bool) -> Iterator[Row]:
    topics = copies.topics()
    changes = copies.changes(topics)
    places = [TopicPartition(topic, n) for topic, count in topics.items() for n in range(count)]
    begins = source.list_offsets(dict.fromkeys(places, EARLIEST))
    ends = source.list_offsets(dict.fromkeys(places, LATEST), is_committed=is_committed)
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


def _groups(flow: Flow, source: Admin) -> tuple[list[str], list[str]]:
    if CHECKPOINT not in flow.connectors:
        return [], []
    props, _ = resolved(flow.connectors[CHECKPOINT], flow.worker)
    config = CheckpointConfig.of(props)
    groups = chosen_groups(config, source)
    unmatched = config.group_filter().unmatched(groups)
    lines = [f"groups that the source does not have: {', '.join(unmatched)}"] if unmatched else []
    return groups, lines
