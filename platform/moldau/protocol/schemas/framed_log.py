"""The records of the cluster's metadata log and of the remote log: values in a frame.

The frame is three unsigned varints: frame version (always 1), record type, version; then the
message, to the end of the value. Bytes that match no schema raise MalformedMessage; an unknown type
raises UnknownRecordType.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from moldau.errors import MalformedMessage
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas import UnknownRecordType, schema_class
from moldau.protocol.schemas.versioned import Readable

FRAME_VERSION: Final = 1
_VARINT_BYTES_MAX: Final = 5  # the size of 32 bits


class FramedLog:
    """A log with framed records: its topic, and its schemas by record type."""

    __slots__ = ("_names", "topic")

    def __init__(self, topic: str, names: Mapping[int, str]) -> None:
        self.topic = topic
        self._names = names

    def types(self) -> tuple[int, ...]:
        """Return the record types of this log."""
        return tuple(self._names)

    def record_class(self, record_type: int) -> type[MetadataRecord]:
        """Return the class of records of that type. Raise UnknownRecordType if there is none."""
        name = self._names.get(record_type)
        if name is None:
            raise UnknownRecordType("unknown record type", log=self.topic, type=record_type)
        return cast("type[MetadataRecord]", schema_class(name))

    def encode(self, record: MetadataRecord, version: int) -> bytes:
        """Return the bytes of a record's value in that version."""
        record_type = type(record).spec.key
        assert record_type is not None
        assert type(record) is self.record_class(record_type), f"{record!r} is not of {self.topic}"
        frame = bytearray((FRAME_VERSION,))
        _append_varint(frame, record_type)
        _append_varint(frame, version)
        return bytes(frame) + record.encode(version)

    def decode(self, data: Readable) -> tuple[MetadataRecord, int]:
        """Return the record in these bytes, and the version that it was written in."""
        frame_version, position = self._varint(data, 0, "frame version")
        if frame_version != FRAME_VERSION:
            raise MalformedMessage("unknown frame version", log=self.topic, found=frame_version)
        record_type, position = self._varint(data, position, "type")
        version, position = self._varint(data, position, "version")
        cls = self.record_class(record_type)
        known = cls.spec.versions
        if version not in known:
            raise MalformedMessage(
                "unknown version", message=cls.__name__, version=version, known=str(known)
            )
        record, end = cls.decode_from(data, position, version)
        if end != len(data):
            raise MalformedMessage(
                "bytes after the record", message=cls.__name__, at=end, size=len(data)
            )
        return record, version

    def _varint(self, data: Readable, position: int, what: str) -> tuple[int, int]:
        value = 0
        for index, byte in enumerate(data[position : position + _VARINT_BYTES_MAX]):
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value, position + index + 1
        raise MalformedMessage(f"no {what} in the frame", log=self.topic, at=position)


def _append_varint(frame: bytearray, value: int) -> None:
    while value > 0x7F:
        frame.append(value & 0x7F | 0x80)
        value >>= 7
    frame.append(value)


METADATA_LOG: Final = FramedLog(
    "__cluster_metadata",
    {
        0: "RegisterBrokerRecord",
        1: "UnregisterBrokerRecord",
        2: "TopicRecord",
        3: "PartitionRecord",
        4: "ConfigRecord",
        5: "PartitionChangeRecord",
        7: "FenceBrokerRecord",
        8: "UnfenceBrokerRecord",
        9: "RemoveTopicRecord",
        10: "DelegationTokenRecord",
        11: "UserScramCredentialRecord",
        12: "FeatureLevelRecord",
        14: "ClientQuotaRecord",
        15: "ProducerIdsRecord",
        17: "BrokerRegistrationChangeRecord",
        18: "AccessControlEntryRecord",
        19: "RemoveAccessControlEntryRecord",
        20: "NoOpRecord",
        21: "ZkMigrationStateRecord",
        22: "RemoveUserScramCredentialRecord",
        23: "BeginTransactionRecord",
        24: "EndTransactionRecord",
        25: "AbortTransactionRecord",
        26: "RemoveDelegationTokenRecord",
        27: "RegisterControllerRecord",
        28: "ClearElrRecord",
        29: "UnregisterControllerRecord",
    },
)
REMOTE_LOG: Final = FramedLog(
    "__remote_log_metadata",
    {
        0: "RemoteLogSegmentMetadataRecord",
        1: "RemoteLogSegmentMetadataUpdateRecord",
        2: "RemotePartitionDeleteMetadataRecord",
        3: "RemoteLogSegmentMetadataSnapshotRecord",
    },
)
