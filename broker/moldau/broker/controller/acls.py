"""Access control rules: the fold of their records. No request changes them yet.

Invariant: each rule has its own id, by which it is removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from moldau.errors import CorruptLog
from moldau.ids import Uuid
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)


class Acl(NamedTuple):
    """One rule: it allows or denies a principal an operation on resources, from a host."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class Acls:
    """Rules by id."""

    RECORDS = (AccessControlEntryRecord, RemoveAccessControlEntryRecord)

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[Uuid, Acl] = {}

    def __eq__(self, other: object) -> bool:
        return self.by_id == other.by_id if isinstance(other, Acls) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of this family."""
        if isinstance(record, AccessControlEntryRecord):
            self.by_id[record.id] = Acl(
                record.resource_type,
                record.resource_name,
                record.pattern_type,
                record.principal,
                record.host,
                record.operation,
                record.permission_type,
            )
            return
        assert isinstance(record, RemoveAccessControlEntryRecord)
        if self.by_id.pop(record.id, None) is None:
            raise CorruptLog("removal of a rule that does not exist", id=record.id.hex())

    def records(self, metadata_version: int) -> Iterator[MetadataRecord]:
        """Yield the records of this family for a snapshot, with the current state."""
        return (
            AccessControlEntryRecord(id=acl_id, **acl._asdict())
            for acl_id, acl in self.by_id.copy().items()
        )
