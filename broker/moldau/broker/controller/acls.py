"""Access control rules: the fold of their records.

Invariant: each rule has its own id, by which it is removed. `index` has the same rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.broker.security.access.index import AclIndex
from moldau.broker.security.access.rule import Acl
from moldau.errors import CorruptLog
from moldau.ids import Uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)


class Acls:
    """Rules by id, and by what they are about."""

    RECORDS = (AccessControlEntryRecord, RemoveAccessControlEntryRecord)

    __slots__ = ("by_id", "index")

    def __init__(self) -> None:
        self.by_id: dict[Uuid, Acl] = {}
        self.index = AclIndex()

    def __eq__(self, other: object) -> bool:
        return self.by_id == other.by_id if isinstance(other, Acls) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of this family."""
        if isinstance(record, AccessControlEntryRecord):
            before = self.by_id.get(record.id)
            if before is not None:
                self.index.remove(before)
            acl = self.by_id[record.id] = Acl(
                record.resource_type,
                record.resource_name,
                record.pattern_type,
                record.principal,
                record.host,
                record.operation,
                record.permission_type,
            )
            self.index.add(acl)
            return
        assert isinstance(record, RemoveAccessControlEntryRecord)
        gone = self.by_id.pop(record.id, None)
        if gone is None:
            raise CorruptLog("removal of a rule that does not exist", id=record.id.hex())
        self.index.remove(gone)

    def records(self, metadata_version: int) -> Iterator[MetadataRecord]:
        """Yield the records of this family for a snapshot, with the current state."""
        return (
            AccessControlEntryRecord(id=acl_id, **acl._asdict())
            for acl_id, acl in self.by_id.copy().items()
        )
