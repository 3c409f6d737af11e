"""The kind of coordinator for transactions: its shards are the partitions of
`__transaction_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.coordinator.kind import CoordinatorKind, KeyType
from moldau.broker.coordinator.running_shard import ShardSettings
from moldau.broker.coordinator.transaction.transactions import Transactions
from moldau.broker.settings import offset as offset_settings
from moldau.broker.settings import transaction as settings
from moldau.protocol.schemas.coordinator_log import TRANSACTION_LOG
from moldau.records import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.broker.coordinator.running_shard import CarryOut
    from moldau.broker.coordinator.transaction.services import TransactionServices
    from moldau.config import Settings

_NO_LINGER: Final = -1
TRANSACTIONS_TOPIC: Final = TRANSACTION_LOG.topic


def transactions_kind(
    services: TransactionServices, carry_out: CarryOut, close: Callable[[], None]
) -> CoordinatorKind[Transactions]:
    """Return the kind for transactions that use the services of this node. `carry_out` writes
    markers."""
    return CoordinatorKind(
        KeyType.TRANSACTION,
        TRANSACTION_LOG,
        lambda: Transactions(services),
        _terms,
        carry_out,
        close,
    )


def _terms(now: Settings) -> ShardSettings:
    return ShardSettings(
        Codec.NONE,
        now[settings.transaction_state_log_load_buffer_size],
        now[offset_settings.offsets_commit_timeout_ms],
        _NO_LINGER,
    )
