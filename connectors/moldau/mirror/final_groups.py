"""Sets the offsets of groups at the end of `moldau mirror --once`, when all records are copied."""

from __future__ import annotations

from contextlib import closing

from moldau.connect.installed.plugins import resolved
from moldau.mirror.clusters import ensure_compacted, open_admin, open_producer
from moldau.mirror.flows import CHECKPOINT, Flow
from moldau.mirror.group_offsets import GroupOffsets, chosen_groups
from moldau.mirror.settings import CheckpointConfig


def set_group_offsets(flow: Flow) -> tuple[int, int]:
    """Write the checkpoints of a flow's groups and set their offsets on the target. Return the
    number of groups and of offsets."""
    props, _ = resolved(flow.connectors[CHECKPOINT], flow.worker)
    config = CheckpointConfig.of(props)
    topic = config.policy().checkpoints_topic(config.source)
    with open_admin(props, "target", config.admin_timeout_ms) as admin:
        setting = "checkpoints.topic.replication.factor"
        ensure_compacted(admin, topic, config.checkpoints_replicas, setting)
    with closing(GroupOffsets(config, props)) as offsets:
        groups = chosen_groups(config, offsets.source)
        with open_producer(props, "target") as producer:
            for each in offsets.new_checkpoints(groups):
                producer.send(topic, each.value, key=each.key, partition=0)
        return len(groups), offsets.set_offsets(groups)
