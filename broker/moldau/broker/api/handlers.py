"""The table of APIs and their handlers. An API without a row is neither advertised nor answered.

Rows are sorted by key. A row is added when its API works in every version that Kafka 4.3.1 serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.broker.api import (
    alter_replica_log_dirs,
    api_versions,
    brokers,
    cluster,
    configs,
    delete_records,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    elections,
    features,
    fetch,
    find_coordinator,
    group_listing,
    group_membership,
    init_producer_id,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    quorum,
    raft_voters,
    reassignments,
    topic_partitions,
    topics,
)
from moldau.broker.api.request import Handler

HANDLERS: Final[Mapping[int, Handler]] = {
    0: produce.serve,
    1: fetch.serve,
    2: list_offsets.serve,
    3: metadata.serve,
    8: offset_commit.serve,
    9: offset_fetch.serve,
    10: find_coordinator.serve,
    11: group_membership.serve_join_group,
    12: group_membership.serve_heartbeat,
    13: group_membership.serve_leave_group,
    14: group_membership.serve_sync_group,
    15: group_listing.serve_describe_groups,
    16: group_listing.serve_list_groups,
    18: api_versions.handler(lambda: HANDLERS.keys()),
    19: topics.serve_create_topics,
    20: topics.serve_delete_topics,
    21: delete_records.serve,
    22: init_producer_id.serve,
    23: offset_for_leader_epoch.serve,
    32: describe_configs.serve,
    33: configs.serve_alter,
    34: alter_replica_log_dirs.serve,
    35: describe_log_dirs.serve,
    37: topics.serve_create_partitions,
    42: group_listing.serve_delete_groups,
    43: elections.serve,
    44: configs.serve_incremental_alter,
    45: reassignments.serve_alter,
    46: reassignments.serve_list,
    47: offset_commit.serve_delete,
    55: quorum.serve,
    57: features.serve,
    60: cluster.serve,
    61: describe_producers.serve,
    64: brokers.serve_unregister,
    68: group_membership.serve_consumer_group_heartbeat,
    69: group_listing.serve_consumer_group_describe,
    74: configs.serve_list,
    75: topic_partitions.serve,
    80: raft_voters.serve_add,
    81: raft_voters.serve_remove,
}
