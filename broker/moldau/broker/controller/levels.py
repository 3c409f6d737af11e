"""Features, their supported levels, and the record versions of each metadata.version.

Invariant: no record is written in a version that the finalized metadata.version does not know,
since an older node of the cluster must be able to read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.broker_log import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from moldau.protocol.schemas.metadata_log import PartitionChangeRecord, PartitionRecord

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
GROUP_VERSION: Final = "group.version"
TRANSACTION_VERSION: Final = "transaction.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"


class LevelRange(NamedTuple):
    """The lowest and the highest level of a feature that a node can run at."""

    lowest: int
    highest: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.lowest <= level <= self.highest


METADATA_VERSION_LOWEST: Final = 7
METADATA_VERSION_NEWEST: Final = 33

SUPPORTED: Final[Mapping[str, LevelRange]] = {
    METADATA_VERSION: LevelRange(METADATA_VERSION_LOWEST, METADATA_VERSION_NEWEST),
    KRAFT_VERSION: LevelRange(0, 1),
    TRANSACTION_VERSION: LevelRange(0, 2),
    GROUP_VERSION: LevelRange(0, 1),
    ELR_VERSION: LevelRange(0, 1),
    SHARE_VERSION: LevelRange(0, 2),
    STREAMS_VERSION: LevelRange(0, 1),
}

# Each release since 3.3-IV3, with the lowest and the highest IV of its metadata.versions.
_RELEASES: Final = (
    ("3.3", 3, 3),
    ("3.4", 0, 0),
    ("3.5", 0, 2),
    ("3.6", 0, 2),
    ("3.7", 0, 4),
    ("3.8", 0, 0),
    ("3.9", 0, 0),
    ("4.0", 0, 3),
    ("4.1", 0, 1),
    ("4.2", 0, 1),
    ("4.3", 0, 0),
    ("4.4", 0, 2),
)
METADATA_VERSION_NAMES: Final[Mapping[int, str]] = dict(
    enumerate(
        (
            f"{release}-IV{number}"
            for release, first, last in _RELEASES
            for number in range(first, last + 1)
        ),
        METADATA_VERSION_LOWEST,
    )
)
assert METADATA_VERSION_NEWEST in METADATA_VERSION_NAMES

# The levels that a new cluster starts with at each metadata.version: (feature, since, level), a
# later row of a feature after an earlier one.
_DEFAULTS: Final = (
    (ELR_VERSION, 26, 1),
    (GROUP_VERSION, 22, 1),
    (SHARE_VERSION, 28, 1),
    (SHARE_VERSION, 31, 2),
    (STREAMS_VERSION, 29, 1),
    (TRANSACTION_VERSION, 24, 2),
)

_MIGRATION_SINCE: Final = 8
_SCRAM_SINCE: Final = 11
_DELEGATION_TOKENS_SINCE: Final = 14
_CONTROLLERS_SINCE: Final = 15
_DIRECTORIES_SINCE: Final = 17
_ELR_SINCE: Final = 23
_CORDONED_SINCE: Final = 30
_NETWORKS_SINCE: Final = 32
_CONTROLLERS_LEAVE_SINCE: Final = 33

# The levels that changed the meaning of records. No downgrade crosses one of them.
_RECORDS_CHANGED_AT: Final = frozenset((7, 8, 11, 13, 14, 15, 17, 23, 30, 32, 33))


def metadata_version_level(name: str) -> int | None:
    """Return the level of a metadata.version written as `4.3-IV0`, or as `4.3` for the newest of a
    release; None if it is unknown."""
    newest = None
    for level, known in METADATA_VERSION_NAMES.items():
        if known == name:
            return level
        if known.partition("-")[0] == name:
            newest = level
    return newest


def default_levels(metadata_version: int) -> dict[str, int]:
    """Return the levels that a new cluster of this metadata.version starts with, including
    metadata.version itself."""
    levels = {METADATA_VERSION: metadata_version}
    for feature, since, level in _DEFAULTS:
        if metadata_version >= since:
            levels[feature] = level
    return levels


def changes_records_between(lower: int, higher: int) -> bool:
    """Whether a record written at `higher` may not be understood at `lower`."""
    return any(lower < level <= higher for level in _RECORDS_CHANGED_AT)


def supports_scram(metadata_version: int) -> bool:
    """Whether the metadata log may hold SCRAM credentials."""
    return metadata_version >= _SCRAM_SINCE


def supports_delegation_tokens(metadata_version: int) -> bool:
    """Whether the metadata log may hold delegation tokens."""
    return metadata_version >= _DELEGATION_TOKENS_SINCE


def supports_controllers(metadata_version: int) -> bool:
    """Whether controllers are recorded (KIP-919)."""
    return metadata_version >= _CONTROLLERS_SINCE


def supports_leaving_controllers(metadata_version: int) -> bool:
    """Whether it can be recorded that a controller is gone for good."""
    return metadata_version >= _CONTROLLERS_LEAVE_SINCE


def supports_networks(metadata_version: int) -> bool:
    """Whether the hosts of access rules may be networks."""
    return metadata_version >= _NETWORKS_SINCE


def supports_directories(metadata_version: int) -> bool:
    """Whether the log directories of replicas are recorded (KIP-858)."""
    return metadata_version >= _DIRECTORIES_SINCE


def supports_elr(metadata_version: int) -> bool:
    """Whether eligible leader replicas can be recorded (KIP-966)."""
    return metadata_version >= _ELR_SINCE


def supports_cordoned_directories(metadata_version: int) -> bool:
    """Whether a broker's cordoned directories are recorded (KIP-1066)."""
    return metadata_version >= _CORDONED_SINCE


def record_version(record: MetadataRecord, metadata_version: int) -> int:
    """Return the version in which the record is written at this metadata.version."""
    match record:
        case PartitionRecord() | PartitionChangeRecord():
            if supports_elr(metadata_version):
                return 2
            return 1 if supports_directories(metadata_version) else 0
        case RegisterBrokerRecord():
            return _registration_version(metadata_version)
        case BrokerRegistrationChangeRecord():
            return _change_version(record)
        case _:
            return type(record).spec.versions.last


def _registration_version(metadata_version: int) -> int:
    if supports_cordoned_directories(metadata_version):
        return 4
    if supports_directories(metadata_version):
        return 3
    return 2 if metadata_version >= _MIGRATION_SINCE else 1


def _change_version(record: BrokerRegistrationChangeRecord) -> int:
    """Return the lowest version that can hold the record's fields. The decision that made the
    record used only fields that the cluster knows."""
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0
