"""What access control rules are about: resources, operations, patterns of names, permissions. In
responses (KIP-430), operations are bits: each has the bit at its number. No IO."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, Self

NOT_ASKED: Final = -(2**31)
"""The value in the response to a request that did not ask for the operations."""


class _OpenEnum(IntEnum):
    """Numbers of Kafka, of which newer brokers may have more: those are its `UNKNOWN`."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls["UNKNOWN"]


class AclOperation(_OpenEnum):
    """An operation, by Kafka's number; `UNKNOWN` stands for one that is newer than this code."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclResource(_OpenEnum):
    """The kind of a resource, by Kafka's number; `UNKNOWN` is one that is newer than this code."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(_OpenEnum):
    """How the name of a rule matches the names of resources; `UNKNOWN` is newer than this code. ANY
    and MATCH are for filters: MATCH selects the rules that decide about a resource of that name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermission(_OpenEnum):
    """Whether a rule allows or denies; `UNKNOWN` is newer than this code. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


def bits_of(operations: Iterable[AclOperation]) -> int:
    """Return the bits of these operations, as in a response."""
    return sum(1 << each for each in operations)


def operations_in(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations of a response; None if the broker did not report them."""
    if bits == NOT_ASKED:
        return None
    return frozenset(AclOperation(place) for place in range(32) if bits >> place & 1)
