"""Where share partitions are kept: the interface of the share coordinator to their leaders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from moldau.broker.share.piece import Letter, StoredRun
from moldau.broker.share.window import Store
from moldau.errors.codes import KafkaError
from moldau.ids import Uuid

if TYPE_CHECKING:
    from moldau.broker.replication.partition import Partition
    from moldau.broker.share.settings import DeadLetterTopic

NOT_STARTED = -1
"""The start offset of a state whose leader chooses where the group begins."""


class ShareKey(NamedTuple):
    """A partition as one share group reads it."""

    group_id: str
    topic_id: Uuid
    partition: int


class StoredState(NamedTuple):
    """A stored state."""

    state_epoch: int
    start_offset: int
    runs: tuple[StoredRun, ...]


OnLoaded: TypeAlias = "Callable[[StoredState | KafkaError], None]"
OnStored: TypeAlias = "Callable[[KafkaError | None], None]"


class Persister(Protocol):
    """Reads and writes states. Each call is answered once, perhaps before it returns. It tries
    again while the coordinator moves, for some seconds."""

    def load(self, key: ShareKey, leader_epoch: int, then: OnLoaded) -> None:
        """Read a state, and fence leaders with an older epoch."""
        ...

    def store(
        self, key: ShareKey, state_epoch: int, leader_epoch: int, change: Store, then: OnStored
    ) -> None:
        """Write a change of a state."""
        ...


class DeadLetters(Protocol):
    """Writes records that were given up to the dead letter topic of a group."""

    def bury(
        self,
        key: ShareKey,
        partition: Partition,
        topic: DeadLetterTopic,
        letters: Sequence[Letter],
        then: OnStored,
    ) -> None:
        """Write the letters. `then` is called once, when all in-sync replicas have them, or after
        some seconds with the last error; perhaps before this returns. By Kafka's rules there is
        no error: letters that cannot be written are lost, and the log says so."""
        ...
