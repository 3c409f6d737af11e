"""The rights that each API takes, as Kafka has them: what authorizers are asked for, and what the
error of a client can name. No IO.

The first right of a row is the usual one. The others are those that a part of the request takes,
or that are enough instead: docs/security-rights.md has it in words. An API without a right is open
to every client of its listeners.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.errors.codes import ErrorCode
from moldau.protocol.acl_operations import AclOperation, AclResource
from moldau.protocol.messages import API, OWN


class Right(NamedTuple):
    """An operation on resources of one kind."""

    resource: AclResource
    operation: AclOperation


REFUSALS: Final = {
    AclResource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    AclResource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    AclResource.USER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}
"""The error of a client that lacks a right, by the kind of the resource."""

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

_ALTER_CONFIGS: Final = (
    Right(AclResource.TOPIC, AclOperation.ALTER_CONFIGS),
    Right(AclResource.GROUP, AclOperation.ALTER_CONFIGS),
    ALTER_ALL_CONFIGS,
)

NEEDED_RIGHTS: Final[Mapping[int, tuple[Right, ...]]] = {
    0: (WRITE_TOPIC, WRITE_TRANSACTION),
    1: (READ_TOPIC, CLUSTER_ACTION),
    2: (DESCRIBE_TOPIC,),
    3: (DESCRIBE_TOPIC, DESCRIBE_CLUSTER),
    8: (READ_GROUP, READ_TOPIC),
    9: (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    10: (DESCRIBE_GROUP, DESCRIBE_TRANSACTION),
    **dict.fromkeys((11, 12, 13, 14), (READ_GROUP,)),
    15: (DESCRIBE_GROUP,),
    16: (DESCRIBE_GROUP, DESCRIBE_CLUSTER),
    **dict.fromkeys((17, 18), ()),
    19: (CREATE_TOPIC, CREATE_ON_CLUSTER),
    20: (DELETE_TOPIC, DESCRIBE_TOPIC, Right(AclResource.CLUSTER, AclOperation.DELETE)),
    21: (DELETE_TOPIC,),
    22: (
        WRITE_TRANSACTION,
        Right(AclResource.CLUSTER, AclOperation.IDEMPOTENT_WRITE),
        WRITE_TOPIC,
    ),
    23: (DESCRIBE_TOPIC, CLUSTER_ACTION),
    24: (WRITE_TRANSACTION, WRITE_TOPIC, CLUSTER_ACTION),
    25: (WRITE_TRANSACTION, READ_GROUP),
    26: (WRITE_TRANSACTION,),
    27: (CLUSTER_ACTION, ALTER_CLUSTER),
    28: (WRITE_TRANSACTION, READ_GROUP, READ_TOPIC),
    29: (DESCRIBE_CLUSTER,),
    **dict.fromkeys((30, 31), (ALTER_CLUSTER,)),
    32: (
        Right(AclResource.TOPIC, AclOperation.DESCRIBE_CONFIGS),
        Right(AclResource.GROUP, AclOperation.DESCRIBE_CONFIGS),
        DESCRIBE_ALL_CONFIGS,
    ),
    33: _ALTER_CONFIGS,
    34: (ALTER_CLUSTER,),
    35: (DESCRIBE_CLUSTER,),
    36: (),
    37: (ALTER_TOPIC,),
    38: (Right(AclResource.USER, AclOperation.CREATE_TOKENS),),
    **dict.fromkeys((39, 40), ()),
    41: (
        Right(AclResource.DELEGATION_TOKEN, AclOperation.DESCRIBE),
        Right(AclResource.USER, AclOperation.DESCRIBE_TOKENS),
    ),
    42: (DELETE_GROUP,),
    43: (ALTER_CLUSTER,),
    44: _ALTER_CONFIGS,
    45: (ALTER_CLUSTER,),
    46: (DESCRIBE_CLUSTER,),
    47: (DELETE_GROUP, READ_TOPIC),
    48: (DESCRIBE_ALL_CONFIGS,),
    49: (ALTER_ALL_CONFIGS,),
    50: (DESCRIBE_CLUSTER,),
    51: (ALTER_CLUSTER,),
    **dict.fromkeys((52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82), (CLUSTER_ACTION,)),
    55: (DESCRIBE_CLUSTER,),
    57: (ALTER_CLUSTER,),
    60: (DESCRIBE_CLUSTER,),
    61: (READ_TOPIC,),
    64: (ALTER_CLUSTER,),
    65: (DESCRIBE_TRANSACTION, DESCRIBE_TOPIC),
    66: (DESCRIBE_TRANSACTION,),
    68: (READ_GROUP, DESCRIBE_TOPIC),
    69: (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    **dict.fromkeys((71, 72), ()),
    74: (DESCRIBE_ALL_CONFIGS,),
    75: (DESCRIBE_TOPIC,),
    76: (READ_GROUP, DESCRIBE_TOPIC),
    77: (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    **dict.fromkeys((78, 79), (READ_GROUP, READ_TOPIC)),
    **dict.fromkeys((80, 81), (ALTER_CLUSTER,)),
    **dict.fromkeys((83, 84, 85, 86, 87), (CLUSTER_ACTION,)),
    88: (READ_GROUP, DESCRIBE_TOPIC, CREATE_TOPIC, CREATE_ON_CLUSTER),
    89: (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    90: (DESCRIBE_GROUP, DESCRIBE_TOPIC),
    91: (READ_GROUP, READ_TOPIC),
    92: (DELETE_GROUP, READ_TOPIC),
    93: (READ_GROUP,),
    94: (ALTER_CLUSTER,),
    **dict.fromkeys((20001, 20002), (ALTER_CLUSTER,)),
    20003: (ALTER_TOPIC,),
}
"""By API key."""


def _codes_of(resource: AclResource) -> tuple[ErrorCode, ...]:
    """Return the codes for a missing right on a resource. Requests for tokens of other users have
    that of tokens."""
    if resource is AclResource.USER:
        return (REFUSALS[resource], ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return (REFUSALS[resource],)


def missing_right(api: str, code: ErrorCode) -> Right | None:
    """Return the right that a client lacks if this API, by its name, is refused with that code;
    None if the code is about something else."""
    rows = [NEEDED_RIGHTS[key] for key, entry in (*API.items(), *OWN.items()) if entry.name == api]
    needed = [each for row in rows for each in row if code in _codes_of(each.resource)]
    of_clients = [each for each in needed if each != CLUSTER_ACTION]
    return next(iter(of_clients or needed), None)
