"""The cluster's metadata: the fold of `__cluster_metadata`.

Invariants: only `replay` changes an image. The image after any prefix of the log equals the image
after the records of its snapshot. Records between BeginTransaction and EndTransaction take effect
together, or (AbortTransaction) not at all (KIP-868).

Each family of records has its own class and module. The image only routes records, so that no
single place grows with every kind of record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, TypeAlias

from moldau.broker.controller.acls import Acls
from moldau.broker.controller.brokers import Brokers
from moldau.broker.controller.configs import Configs
from moldau.broker.controller.credentials import Credentials
from moldau.broker.controller.features import Features
from moldau.broker.controller.producer_ids import ProducerIds
from moldau.broker.controller.quotas import ClientQuotas
from moldau.broker.controller.topics import Topics
from moldau.errors import CorruptLog
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
    RemoveTopicRecord,
    ZkMigrationStateRecord,
)

Family: TypeAlias = (
    Features | Brokers | Topics | Configs | ClientQuotas | ProducerIds | Acls | Credentials
)

# In the order of a snapshot: a family comes after those that it depends on.
_FAMILIES: Final[tuple[tuple[str, type[Family]], ...]] = (
    ("features", Features),
    ("brokers", Brokers),
    ("topics", Topics),
    ("configs", Configs),
    ("client_quotas", ClientQuotas),
    ("producer_ids", ProducerIds),
    ("acls", Acls),
    ("credentials", Credentials),
)
_FAMILY_OF: Final[dict[type[MetadataRecord], str]] = {
    record: name for name, family in _FAMILIES for record in family.RECORDS
}


class Image:
    """The state after all records of the metadata log that were replayed so far."""

    __slots__ = (
        "_transaction",
        "acls",
        "brokers",
        "client_quotas",
        "configs",
        "credentials",
        "features",
        "producer_ids",
        "topics",
        "zk_migration_state",
    )

    def __init__(self) -> None:
        self.features = Features()
        self.brokers = Brokers()
        self.topics = Topics()
        self.configs = Configs()
        self.client_quotas = ClientQuotas()
        self.producer_ids = ProducerIds()
        self.acls = Acls()
        self.credentials = Credentials()
        self.zk_migration_state = 0
        self._transaction: list[MetadataRecord] | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Image):
            return NotImplemented
        return self._transaction == other._transaction and all(
            getattr(self, name) == getattr(other, name) for name, _ in _FAMILIES
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def is_in_transaction(self) -> bool:
        """Whether records wait for the end of their transaction. No snapshot is possible then."""
        return self._transaction is not None

    def replay(self, record: MetadataRecord) -> None:
        """Apply the next record of the log. Raise CorruptLog if it contradicts earlier ones."""
        match record:
            case BeginTransactionRecord():
                if self._transaction is not None:
                    raise CorruptLog("a metadata transaction begins inside another")
                self._transaction = []
            case EndTransactionRecord():
                for each in self._end_transaction():
                    self._apply(each)
            case AbortTransactionRecord():
                self._end_transaction()
            case _ if self._transaction is not None:
                self._transaction.append(record)
            case _:
                self._apply(record)

    def replay_all(self, records: Iterable[MetadataRecord]) -> None:
        """Apply the records in order."""
        for record in records:
            self.replay(record)

    def records(self) -> Iterator[MetadataRecord]:
        """Yield the records of a snapshot. Replayed on an empty image they produce an equal one.

        They have the state at the time of this call, although they are made one by one: later
        changes are not in them. The call itself takes milliseconds, even for a large image.
        """
        assert self._transaction is None, "half a transaction cannot be in a snapshot"
        metadata_version = self.features.metadata_version
        families = [getattr(self, name) for name, _ in _FAMILIES]
        return chain.from_iterable([each.records(metadata_version) for each in families])

    def copy(self) -> Image:
        """Return a copy of the image that later records do not change."""
        twin = Image()
        twin.replay_all(self.records())
        return twin

    def _end_transaction(self) -> list[MetadataRecord]:
        records = self._transaction
        if records is None:
            raise CorruptLog("a metadata transaction ends that never began")
        self._transaction = None
        return records

    def _apply(self, record: MetadataRecord) -> None:
        name = _FAMILY_OF.get(type(record))
        if name is not None:
            if isinstance(record, RemoveTopicRecord):
                self._forget_configs(record)
            family: Family = getattr(self, name)
            family.replay(record)
        elif isinstance(record, ZkMigrationStateRecord):
            self.zk_migration_state = record.zk_migration_state
        else:
            assert isinstance(record, NoOpRecord), f"unknown record {type(record).__name__}"

    def _forget_configs(self, record: RemoveTopicRecord) -> None:
        topic = self.topics.by_id.get(record.topic_id)
        if topic is not None:
            self.configs.forget_topic(topic.name)
