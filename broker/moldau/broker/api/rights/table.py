"""The rights of each API, by key: what the gates of brokers and controllers ask for.

- A right on the cluster is checked before the handler runs. For a request that is forwarded, that
  is on the controller's node, in the context of the original client (KIP-590). Each right on the
  cluster in `also` passes the gate as well.
- A guard takes out the parts of a message that its client has no right to. An API without one has
  no right on what its message names, or its handler checks it (`gate.allowed`). `also` has the
  other rights that guard and handler ask for.
- An API without a right is open to every client of its listeners.

The rights are Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moldau.broker.api.rights import groups, offsets, records, settings, tokens, topics
from moldau.broker.api.rights.guard import Guard
from moldau.broker.api.rights.items import ItemGuard
from moldau.broker.decision.authorizer import Right
from moldau.protocol.acl_operations import AclOperation, AclResource


@dataclass(frozen=True, slots=True)
class ApiRights:
    """The rights of one API; see the module."""

    right: Right | None = None
    also: tuple[Right, ...] = ()
    guard: Guard | None = None
    """For requests that brokers answer, or answer in part."""
    decision_guard: Guard | None = None
    """For requests that controllers decide."""

    @property
    def cluster_rights(self) -> tuple[Right, ...]:
        """The rights of which the gate asks for one before the handler runs."""
        if self.right is None or self.right.resource is not AclResource.CLUSTER:
            return ()
        others = [each for each in self.also if each.resource is AclResource.CLUSTER]
        return (self.right, *others)

    def on(self, resource: AclResource) -> Right:
        """Return the right that a handler asks for on resources of a kind."""
        for right in (self.right, *self.also):
            if right is not None and right.resource is resource:
                return right
        raise AssertionError(f"the API has no right on {resource.name}")


CREATE_TOPIC: Final = Right(AclResource.TOPIC, AclOperation.CREATE)
CREATE_ON_CLUSTER: Final = Right(AclResource.CLUSTER, AclOperation.CREATE)
READ_TOPIC: Final = Right(AclResource.TOPIC, AclOperation.READ)
WRITE_TOPIC: Final = Right(AclResource.TOPIC, AclOperation.WRITE)
DELETE_TOPIC: Final = Right(AclResource.TOPIC, AclOperation.DELETE)
ALTER_TOPIC: Final = Right(AclResource.TOPIC, AclOperation.ALTER)
DESCRIBE_TOPIC: Final = Right(AclResource.TOPIC, AclOperation.DESCRIBE)
READ_GROUP: Final = Right(AclResource.GROUP, AclOperation.READ)
DELETE_GROUP: Final = Right(AclResource.GROUP, AclOperation.DELETE)
DESCRIBE_GROUP: Final = Right(AclResource.GROUP, AclOperation.DESCRIBE)
WRITE_TRANSACTION: Final = Right(AclResource.TRANSACTIONAL_ID, AclOperation.WRITE)
DESCRIBE_TRANSACTION: Final = Right(AclResource.TRANSACTIONAL_ID, AclOperation.DESCRIBE)
CLUSTER_ACTION: Final = Right(AclResource.CLUSTER, AclOperation.CLUSTER_ACTION)
ALTER_CLUSTER: Final = Right(AclResource.CLUSTER, AclOperation.ALTER)
DESCRIBE_CLUSTER: Final = Right(AclResource.CLUSTER, AclOperation.DESCRIBE)
ALTER_ALL_CONFIGS: Final = Right(AclResource.CLUSTER, AclOperation.ALTER_CONFIGS)
DESCRIBE_ALL_CONFIGS: Final = Right(AclResource.CLUSTER, AclOperation.DESCRIBE_CONFIGS)

_ALTER_CONFIGS: Final = ApiRights(
    Right(AclResource.TOPIC, AclOperation.ALTER_CONFIGS),
    (Right(AclResource.GROUP, AclOperation.ALTER_CONFIGS), ALTER_ALL_CONFIGS),
    settings.guard_alter,
    settings.guard_alter,
)

RIGHTS: Final[Mapping[int, ApiRights]] = {
    0: ApiRights(WRITE_TOPIC, (WRITE_TRANSACTION,), records.guard_produce),
    1: ApiRights(READ_TOPIC, (CLUSTER_ACTION,)),
    2: ApiRights(DESCRIBE_TOPIC),
    3: ApiRights(DESCRIBE_TOPIC, (DESCRIBE_CLUSTER,), topics.guard_metadata),
    8: ApiRights(READ_GROUP, (READ_TOPIC,), offsets.guard_commit),
    9: ApiRights(DESCRIBE_GROUP, (DESCRIBE_TOPIC,), offsets.guard_fetch),
    10: ApiRights(DESCRIBE_GROUP, (DESCRIBE_TRANSACTION,), groups.guard_coordinator),
    **dict.fromkeys((11, 12, 13, 14), ApiRights(READ_GROUP)),
    15: ApiRights(DESCRIBE_GROUP, guard=groups.guard_describe),
    16: ApiRights(DESCRIBE_GROUP, (DESCRIBE_CLUSTER,), groups.guard_list),
    **dict.fromkeys((17, 18), ApiRights()),
    19: ApiRights(
        CREATE_TOPIC,
        (CREATE_ON_CLUSTER,),
        decision_guard=topics.guard_create,
    ),
    20: ApiRights(
        DELETE_TOPIC,
        (DESCRIBE_TOPIC, Right(AclResource.CLUSTER, AclOperation.DELETE)),
        decision_guard=topics.guard_delete,
    ),
    21: ApiRights(DELETE_TOPIC, guard=ItemGuard(DELETE_TOPIC, is_first=True)),
    22: ApiRights(
        WRITE_TRANSACTION,
        (Right(AclResource.CLUSTER, AclOperation.IDEMPOTENT_WRITE), WRITE_TOPIC),
        records.guard_producer_id,
    ),
    23: ApiRights(
        DESCRIBE_TOPIC,
        (CLUSTER_ACTION,),
        ItemGuard(DESCRIBE_TOPIC, cluster=CLUSTER_ACTION.operation),
    ),
    24: ApiRights(WRITE_TRANSACTION, (WRITE_TOPIC, CLUSTER_ACTION)),
    25: ApiRights(WRITE_TRANSACTION, (READ_GROUP,)),
    26: ApiRights(WRITE_TRANSACTION),
    27: ApiRights(CLUSTER_ACTION, (ALTER_CLUSTER,)),
    28: ApiRights(WRITE_TRANSACTION, (READ_GROUP, READ_TOPIC)),
    29: ApiRights(DESCRIBE_CLUSTER),
    **dict.fromkeys((30, 31), ApiRights(ALTER_CLUSTER)),
    32: ApiRights(
        Right(AclResource.TOPIC, AclOperation.DESCRIBE_CONFIGS),
        (Right(AclResource.GROUP, AclOperation.DESCRIBE_CONFIGS), DESCRIBE_ALL_CONFIGS),
        settings.guard_describe,
    ),
    33: _ALTER_CONFIGS,
    34: ApiRights(ALTER_CLUSTER),
    35: ApiRights(DESCRIBE_CLUSTER),
    36: ApiRights(),
    37: ApiRights(ALTER_TOPIC, decision_guard=ItemGuard(ALTER_TOPIC, is_first=True, is_once=True)),
    38: ApiRights(
        Right(AclResource.USER, AclOperation.CREATE_TOKENS), decision_guard=tokens.guard_create
    ),
    **dict.fromkeys((39, 40), ApiRights()),
    41: ApiRights(
        Right(AclResource.DELEGATION_TOKEN, AclOperation.DESCRIBE),
        (Right(AclResource.USER, AclOperation.DESCRIBE_TOKENS),),
        tokens.guard_describe,
        tokens.guard_describe,
    ),
    42: ApiRights(DELETE_GROUP, guard=ItemGuard(DELETE_GROUP, is_once=True)),
    43: ApiRights(ALTER_CLUSTER),
    44: _ALTER_CONFIGS,
    45: ApiRights(ALTER_CLUSTER),
    46: ApiRights(DESCRIBE_CLUSTER),
    47: ApiRights(DELETE_GROUP, (READ_TOPIC,), groups.guard_offset_delete),
    48: ApiRights(DESCRIBE_ALL_CONFIGS),
    49: ApiRights(ALTER_ALL_CONFIGS),
    50: ApiRights(DESCRIBE_CLUSTER),
    51: ApiRights(ALTER_CLUSTER),
    **dict.fromkeys((52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82), ApiRights(CLUSTER_ACTION)),
    55: ApiRights(DESCRIBE_CLUSTER),
    57: ApiRights(ALTER_CLUSTER),
    60: ApiRights(also=(DESCRIBE_CLUSTER,), guard=settings.guard_cluster),
    61: ApiRights(READ_TOPIC),
    64: ApiRights(ALTER_CLUSTER),
    65: ApiRights(DESCRIBE_TRANSACTION, (DESCRIBE_TOPIC,)),
    66: ApiRights(DESCRIBE_TRANSACTION),
    68: ApiRights(READ_GROUP, (DESCRIBE_TOPIC,), groups.guard_heartbeat),
    69: ApiRights(DESCRIBE_GROUP, (DESCRIBE_TOPIC,), groups.guard_described),
    **dict.fromkeys((71, 72), ApiRights()),
    74: ApiRights(DESCRIBE_ALL_CONFIGS),
    75: ApiRights(DESCRIBE_TOPIC, guard=topics.guard_topic_partitions),
    76: ApiRights(READ_GROUP, (DESCRIBE_TOPIC,)),
    77: ApiRights(DESCRIBE_GROUP, (DESCRIBE_TOPIC,), groups.guard_described),
    **dict.fromkeys((78, 79), ApiRights(READ_GROUP, (READ_TOPIC,))),
    **dict.fromkeys((80, 81), ApiRights(ALTER_CLUSTER)),
    **dict.fromkeys((83, 84, 85, 86, 87), ApiRights(CLUSTER_ACTION)),
    88: ApiRights(READ_GROUP, (DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_ON_CLUSTER)),
    89: ApiRights(DESCRIBE_GROUP, (DESCRIBE_TOPIC,), groups.guard_described),
    90: ApiRights(DESCRIBE_GROUP, (DESCRIBE_TOPIC,)),
    91: ApiRights(READ_GROUP, (READ_TOPIC,)),
    92: ApiRights(DELETE_GROUP, (READ_TOPIC,)),
}
