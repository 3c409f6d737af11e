"""The table of APIs: a row an API. One without a row is neither advertised nor answered.

Rows are sorted by key. A row is added when its API works in every version that Kafka 4.4.0 serves.
What a row says, and what reads it: `row`. Which rights an API takes: `rights.table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.broker.api import (
    acls,
    alter_replica_log_dirs,
    api_versions,
    client_quotas,
    cluster,
    configs,
    copy_segments,
    delegation_tokens,
    delete_records,
    describe_configs,
    describe_log_dirs,
    describe_producers,
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
    restore_records,
    scram,
    share_acknowledge,
    share_fetch,
    share_group,
    share_offsets,
    share_state,
    streams_group,
    telemetry,
    topic_partitions,
    topics,
    transactions,
    txn_offset_commit,
    write_txn_markers,
)
from moldau.broker.api.forwarding import to_controller
from moldau.broker.api.refused import Refuse, refused_response, with_others
from moldau.broker.api.row import BOTH, CONTROLLER, Api
from moldau.broker.controller.reassignments import refuse_listing
from moldau.broker.controller.scram_changes import refuse_scram
from moldau.errors.codes import ErrorCode, KafkaError

_NO_SASL: Final = KafkaError(
    ErrorCode.ILLEGAL_SASL_STATE,
    "SaslAuthenticate request received after successful authentication",
)


def _decided(refuse: Refuse | None = None) -> Api:
    """Return the row of an API that brokers only forward."""
    return Api(to_controller(refuse), BOTH, is_forwarded=True, refuse=refuse)


_BETWEEN_NODES: Final = Api(None, CONTROLLER)


def _of_share_states(api: share_state.StateApi) -> Api:
    """Return the row of a request to the share coordinator, which only brokers send."""
    return Api(share_state.handler(api), refuse=with_others(start_offset=0))


APIS: Final[Mapping[int, Api]] = {
    0: Api(produce.serve),
    1: Api(fetch.serve, BOTH, refuse=fetch.refuse),
    2: Api(list_offsets.serve),
    3: Api(metadata.serve),
    8: Api(offset_commit.serve),
    9: Api(offset_fetch.serve),
    10: Api(find_coordinator.serve),
    11: Api(group_membership.serve_join_group),
    12: Api(group_membership.serve_heartbeat),
    13: Api(group_membership.serve_leave_group),
    14: Api(group_membership.serve_sync_group),
    15: Api(group_listing.serve_describe_groups),
    16: Api(group_listing.serve_list_groups),
    17: Api.of_off(_NO_SASL, BOTH),
    18: Api(api_versions.handler(lambda: APIS), BOTH),
    19: Api(topics.serve_creation, BOTH, is_forwarded=True, refuse=refused_response),
    20: Api(topics.serve_delete_topics, BOTH, is_forwarded=True, refuse=refused_response),
    21: Api(delete_records.serve),
    22: Api(init_producer_id.serve),
    23: Api(offset_for_leader_epoch.serve),
    24: Api(transactions.serve_add_partitions),
    25: Api(transactions.serve_add_offsets),
    26: Api(transactions.serve_end),
    27: Api(write_txn_markers.serve, refuse=refused_response),
    28: Api(txn_offset_commit.serve),
    29: Api(acls.serve_describe, BOTH),
    **dict.fromkeys((30, 31), _decided(refused_response)),
    32: Api(describe_configs.serve, BOTH),
    33: Api(configs.serve_alter, BOTH, is_forwarded=True, refuse=refused_response),
    34: Api(alter_replica_log_dirs.serve, refuse=alter_replica_log_dirs.refusal),
    35: Api(describe_log_dirs.serve, refuse=with_others(results=[])),
    36: Api.of_off(_NO_SASL, BOTH),
    37: Api(topics.serve_creation, BOTH, is_forwarded=True, refuse=refused_response),
    38: _decided(delegation_tokens.refuse_creation),
    **dict.fromkeys((39, 40), _decided()),
    41: Api(delegation_tokens.serve_describe, BOTH),
    42: Api(group_listing.serve_delete_groups),
    43: _decided(refused_response),
    44: Api(configs.serve_incremental_alter, BOTH, is_forwarded=True, refuse=refused_response),
    45: _decided(refused_response),
    46: _decided(refuse_listing),
    47: Api(offset_commit.serve_delete),
    48: Api(client_quotas.serve_describe, refuse=with_others(error_message=None, entries=None)),
    49: _decided(refused_response),
    50: Api(scram.serve_describe, BOTH, refuse=with_others(user="")),
    51: _decided(refuse_scram),
    **dict.fromkeys((52, 53, 54), _BETWEEN_NODES),
    55: _decided(),
    56: _BETWEEN_NODES,
    57: _decided(),
    **dict.fromkeys((58, 59), _BETWEEN_NODES),
    60: Api(cluster.serve, BOTH),
    61: Api(describe_producers.serve),
    **dict.fromkeys((62, 63), _BETWEEN_NODES),
    64: _decided(),
    65: Api(transactions.serve_describe),
    66: Api(transactions.serve_list),
    67: _BETWEEN_NODES,
    68: Api(group_membership.serve_consumer_group_heartbeat),
    69: Api(group_listing.serve_consumer_group_describe),
    70: _BETWEEN_NODES,
    71: Api(telemetry.serve_get),
    72: Api(telemetry.serve_push),
    73: _BETWEEN_NODES,
    74: Api(configs.serve_list),
    75: Api(topic_partitions.serve),
    76: Api(share_group.serve_heartbeat),
    77: Api(share_group.serve_describe),
    78: Api(share_fetch.serve),
    79: Api(share_acknowledge.serve),
    **dict.fromkeys((80, 81), _decided()),
    82: _BETWEEN_NODES,
    83: _of_share_states(share_state.INITIALIZE),
    84: _of_share_states(share_state.READ),
    85: _of_share_states(share_state.WRITE),
    86: _of_share_states(share_state.DELETE),
    87: _of_share_states(share_state.SUMMARIZE),
    88: Api(streams_group.serve_heartbeat),
    89: Api(streams_group.serve_describe),
    90: Api(share_offsets.serve_describe),
    91: Api(share_offsets.serve_alter),
    92: Api(share_offsets.serve_delete),
    93: Api(streams_group.serve_topology_description),
    94: _decided(),
    20001: _decided(),
    20002: Api(restore_records.serve),
    20003: Api(copy_segments.serve),
}
