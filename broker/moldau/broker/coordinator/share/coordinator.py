"""The kind of coordinator for share partitions: its shards are the partitions of
`__share_group_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from moldau.broker.coordinator.kind import CoordinatorKind, KeyType
from moldau.broker.coordinator.running_shard import ShardSettings
from moldau.broker.coordinator.share.effects import Prune
from moldau.broker.coordinator.share.states import ShareStates
from moldau.broker.settings import share as settings
from moldau.errors.codes import KafkaError
from moldau.protocol.schemas.coordinator_log import SHARE_LOG
from moldau.records import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from moldau.broker.coordinator.outcome import Effect
    from moldau.broker.coordinator.running_shard import RunningShard
    from moldau.broker.coordinator.share.services import ShareStateServices
    from moldau.config import Settings
    from moldau.logging import Logger

SHARE_STATE_TOPIC: Final = SHARE_LOG.topic


def shares_kind(
    services: ShareStateServices, log: Logger, close: Callable[[], None]
) -> CoordinatorKind[ShareStates]:
    """Return the kind for share partitions that use the services of this node. `close` ends what
    else the node does for share groups."""

    def prune(effects: tuple[Effect, ...], shell: RunningShard[Any]) -> None:
        for effect in effects:
            assert isinstance(effect, Prune)
            partition = shell.partition
            try:
                partition.delete_records(min(effect.offset, partition.high_watermark))
            except KafkaError as error:
                what = "the log of share states is not pruned"
                log.debug(what, why=str(error), partition=partition.index)

    return CoordinatorKind(
        KeyType.SHARE, SHARE_LOG, lambda: ShareStates(services), _terms, prune, close
    )


def _terms(now: Settings) -> ShardSettings:
    return ShardSettings(
        Codec(now[settings.share_coordinator_state_topic_compression_codec]),
        now[settings.share_coordinator_load_buffer_size],
        now[settings.share_coordinator_write_timeout_ms],
        now[settings.share_coordinator_append_linger_ms],
    )
