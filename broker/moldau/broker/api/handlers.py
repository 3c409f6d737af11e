"""The table of APIs: a row an API. One without a row is neither advertised nor answered.

Rows are sorted by key. A row is added when its API works in every version that Kafka 4.3.1 serves.
The rights are Kafka's. What a row says, and what reads it: `row`.
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
    delegation_tokens,
    delete_records,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    elections,
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
    scram,
    share_acknowledge,
    share_fetch,
    share_group,
    share_offsets,
    share_state,
    telemetry,
    topic_partitions,
    topics,
    transactions,
    txn_offset_commit,
    write_txn_markers,
)
from moldau.broker.api.forwarding import to_controller
from moldau.broker.api.row import BOTH, CONTROLLER, Api, Refuse
from moldau.broker.controller.acl_changes import refuse_creation, refuse_deletion
from moldau.broker.controller.scram_changes import refuse_scram
from moldau.broker.decision.authorizer import Right
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.acl_operations import AclOperation, AclResource

TOPIC: Final = AclResource.TOPIC
GROUP: Final = AclResource.GROUP
CLUSTER: Final = AclResource.CLUSTER
TRANSACTIONAL_ID: Final = AclResource.TRANSACTIONAL_ID
USER: Final = AclResource.USER

READ: Final = AclOperation.READ
WRITE: Final = AclOperation.WRITE
CREATE: Final = AclOperation.CREATE
DELETE: Final = AclOperation.DELETE
ALTER: Final = AclOperation.ALTER
DESCRIBE: Final = AclOperation.DESCRIBE
DESCRIBE_CONFIGS: Final = AclOperation.DESCRIBE_CONFIGS
ALTER_CONFIGS: Final = AclOperation.ALTER_CONFIGS

_CLUSTER_ACTION: Final = Right(CLUSTER, AclOperation.CLUSTER_ACTION)
_NO_SASL: Final = KafkaError(
    ErrorCode.ILLEGAL_SASL_STATE,
    "SaslAuthenticate request received after successful authentication",
)
_TO_TOPICS: Final = (Right(TOPIC, DESCRIBE),)


def _decided(
    resource: AclResource,
    operation: AclOperation,
    refuse: Refuse | None = None,
    also: tuple[Right, ...] = (),
) -> Api:
    """Return the row of an API that brokers only forward."""
    serve = to_controller(refuse)
    return Api(serve, resource, operation, BOTH, is_forwarded=True, refuse=refuse, also=also)


def _between_nodes() -> Api:
    """Return the row of an API that only nodes use, on the controllers' listeners."""
    return Api(None, CLUSTER, AclOperation.CLUSTER_ACTION, CONTROLLER)


def _of_share_states(api: share_state.StateApi) -> Api:
    """Return the row of a request to the share coordinator, which only brokers send."""
    refuse = share_state.refusal(api)
    return Api(share_state.handler(api), CLUSTER, AclOperation.CLUSTER_ACTION, refuse=refuse)


APIS: Final[Mapping[int, Api]] = {
    0: Api(produce.serve, TOPIC, WRITE, also=(Right(TRANSACTIONAL_ID, WRITE),)),
    1: Api(fetch.serve, TOPIC, READ, BOTH, also=(_CLUSTER_ACTION,)),
    2: Api(list_offsets.serve, TOPIC, DESCRIBE),
    3: Api(metadata.serve, TOPIC, DESCRIBE, also=(Right(CLUSTER, DESCRIBE),)),
    8: Api(offset_commit.serve, GROUP, READ, also=(Right(TOPIC, READ),)),
    9: Api(offset_fetch.serve, GROUP, DESCRIBE, also=_TO_TOPICS),
    10: Api(find_coordinator.serve, GROUP, DESCRIBE, also=(Right(TRANSACTIONAL_ID, DESCRIBE),)),
    11: Api(group_membership.serve_join_group, GROUP, READ),
    12: Api(group_membership.serve_heartbeat, GROUP, READ),
    13: Api(group_membership.serve_leave_group, GROUP, READ),
    14: Api(group_membership.serve_sync_group, GROUP, READ),
    15: Api(group_listing.serve_describe_groups, GROUP, DESCRIBE),
    16: Api(group_listing.serve_list_groups, GROUP, DESCRIBE, also=(Right(CLUSTER, DESCRIBE),)),
    17: Api.of_off(_NO_SASL, listeners=BOTH),
    18: Api(api_versions.handler(lambda: APIS), listeners=BOTH),
    19: _decided(TOPIC, CREATE, topics.refuse_topics, (Right(CLUSTER, CREATE),)),
    20: Api(
        topics.serve_delete_topics,
        *(TOPIC, DELETE, BOTH),
        is_forwarded=True,
        refuse=topics.refuse_deletion,
        also=_TO_TOPICS,
    ),
    21: Api(delete_records.serve, TOPIC, DELETE),
    22: Api(
        init_producer_id.serve,
        *(TRANSACTIONAL_ID, WRITE),
        also=(Right(CLUSTER, AclOperation.IDEMPOTENT_WRITE), Right(TOPIC, WRITE)),
    ),
    23: Api(offset_for_leader_epoch.serve, TOPIC, DESCRIBE, also=(_CLUSTER_ACTION,)),
    24: Api(
        transactions.serve_add_partitions,
        *(TRANSACTIONAL_ID, WRITE),
        also=(Right(TOPIC, WRITE), _CLUSTER_ACTION),
    ),
    25: Api(transactions.serve_add_offsets, TRANSACTIONAL_ID, WRITE, also=(Right(GROUP, READ),)),
    26: Api(transactions.serve_end, TRANSACTIONAL_ID, WRITE),
    27: Api(
        write_txn_markers.serve,
        *(CLUSTER, AclOperation.CLUSTER_ACTION),
        refuse=write_txn_markers.refusal,
    ),
    28: Api(
        txn_offset_commit.serve,
        *(TRANSACTIONAL_ID, WRITE),
        also=(Right(GROUP, READ), Right(TOPIC, READ)),
    ),
    29: Api(acls.serve_describe, CLUSTER, DESCRIBE, BOTH),
    30: _decided(CLUSTER, ALTER, refuse_creation),
    31: _decided(CLUSTER, ALTER, refuse_deletion),
    32: Api(
        describe_configs.serve,
        *(TOPIC, DESCRIBE_CONFIGS, BOTH),
        also=(Right(GROUP, DESCRIBE_CONFIGS), Right(CLUSTER, DESCRIBE_CONFIGS)),
    ),
    33: Api(
        configs.serve_alter,
        *(TOPIC, ALTER_CONFIGS, BOTH),
        is_forwarded=True,
        refuse=configs.refuse_alter,
        also=(Right(GROUP, ALTER_CONFIGS), Right(CLUSTER, ALTER_CONFIGS)),
    ),
    34: Api(alter_replica_log_dirs.serve, CLUSTER, ALTER, refuse=alter_replica_log_dirs.refusal),
    35: Api(describe_log_dirs.serve, CLUSTER, DESCRIBE, refuse=describe_log_dirs.refusal),
    36: Api.of_off(_NO_SASL, listeners=BOTH),
    37: _decided(TOPIC, ALTER, topics.refuse_partitions),
    38: _decided(USER, AclOperation.CREATE_TOKENS, delegation_tokens.refuse_creation),
    **dict.fromkeys((39, 40), Api(to_controller(), listeners=BOTH, is_forwarded=True)),
    41: Api(
        delegation_tokens.serve_describe,
        *(AclResource.DELEGATION_TOKEN, DESCRIBE, BOTH),
        also=(Right(USER, AclOperation.DESCRIBE_TOKENS),),
    ),
    42: Api(group_listing.serve_delete_groups, GROUP, DELETE),
    43: _decided(CLUSTER, ALTER, elections.refusal),
    44: Api(
        configs.serve_incremental_alter,
        *(TOPIC, ALTER_CONFIGS, BOTH),
        is_forwarded=True,
        refuse=configs.refuse_incremental_alter,
        also=(Right(GROUP, ALTER_CONFIGS), Right(CLUSTER, ALTER_CONFIGS)),
    ),
    45: _decided(CLUSTER, ALTER),
    46: _decided(CLUSTER, DESCRIBE),
    47: Api(offset_commit.serve_delete, GROUP, DELETE, also=(Right(TOPIC, READ),)),
    48: Api(
        client_quotas.serve_describe,
        *(CLUSTER, DESCRIBE_CONFIGS),
        refuse=client_quotas.refuse_describe,
    ),
    49: _decided(CLUSTER, ALTER_CONFIGS, client_quotas.refuse_change),
    50: Api(scram.serve_describe, CLUSTER, DESCRIBE, BOTH),
    51: _decided(CLUSTER, ALTER, refuse_scram),
    **dict.fromkeys((52, 53, 54), _between_nodes()),
    55: _decided(CLUSTER, DESCRIBE),
    56: _between_nodes(),
    57: _decided(CLUSTER, ALTER),
    **dict.fromkeys((58, 59), _between_nodes()),
    60: Api(cluster.serve, listeners=BOTH, also=(Right(CLUSTER, DESCRIBE),)),
    61: Api(describe_producers.serve, TOPIC, READ),
    **dict.fromkeys((62, 63), _between_nodes()),
    64: _decided(CLUSTER, ALTER),
    65: Api(transactions.serve_describe, TRANSACTIONAL_ID, DESCRIBE, also=_TO_TOPICS),
    66: Api(transactions.serve_list, TRANSACTIONAL_ID, DESCRIBE),
    67: _between_nodes(),
    68: Api(group_membership.serve_consumer_group_heartbeat, GROUP, READ, also=_TO_TOPICS),
    69: Api(group_listing.serve_consumer_group_describe, GROUP, DESCRIBE, also=_TO_TOPICS),
    70: _between_nodes(),
    71: Api(telemetry.serve_get),
    72: Api(telemetry.serve_push),
    73: _between_nodes(),
    74: Api(configs.serve_list, CLUSTER, DESCRIBE_CONFIGS),
    75: Api(topic_partitions.serve, TOPIC, DESCRIBE),
    76: Api(share_group.serve_heartbeat, GROUP, READ, also=_TO_TOPICS),
    77: Api(share_group.serve_describe, GROUP, DESCRIBE, also=_TO_TOPICS),
    78: Api(share_fetch.serve, GROUP, READ, also=(Right(TOPIC, READ),)),
    79: Api(share_acknowledge.serve, GROUP, READ, also=(Right(TOPIC, READ),)),
    **dict.fromkeys((80, 81), _decided(CLUSTER, ALTER)),
    82: _between_nodes(),
    83: _of_share_states(share_state.INITIALIZE),
    84: _of_share_states(share_state.READ),
    85: _of_share_states(share_state.WRITE),
    86: _of_share_states(share_state.DELETE),
    87: _of_share_states(share_state.SUMMARIZE),
    90: Api(share_offsets.serve_describe, GROUP, DESCRIBE, also=_TO_TOPICS),
    91: Api(share_offsets.serve_alter, GROUP, READ, also=(Right(TOPIC, READ),)),
    92: Api(share_offsets.serve_delete, GROUP, DELETE, also=(Right(TOPIC, READ),)),
}
