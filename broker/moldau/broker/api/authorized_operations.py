"""What a client may do with a topic, a group or the cluster (KIP-430): a bit for each operation.

No authorizer is built yet, so whoever can connect may do all that there is to do. `NOT_ASKED` is
told to those who did not ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

NOT_ASKED: Final = -(2**31)


class Operation(IntEnum):
    """By Kafka's numbers, which are the numbers of the bits."""

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


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << each for each in operations)


ALL_OF_TOPIC: Final = _bits(
    (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )
)
ALL_OF_CLUSTER: Final = _bits(
    (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    )
)
ALL_OF_GROUP: Final = _bits(
    (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    )
)
