"""The finalized levels of the cluster's features.

Invariant: a feature at level 0 is not finalized and has no entry. `metadata.version` is always
present after the bootstrap records were replayed; before that, the lowest one applies.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.broker.controller.levels import (
    ELR_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_LOWEST,
)
from moldau.protocol.declare import MetadataRecord
from moldau.protocol.schemas.metadata_log import FeatureLevelRecord


class Features:
    """Levels by feature name."""

    RECORDS = (FeatureLevelRecord,)

    __slots__ = ("levels",)

    def __init__(self) -> None:
        self.levels: dict[str, int] = {}

    def __eq__(self, other: object) -> bool:
        return self.levels == other.levels if isinstance(other, Features) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes

    @property
    def metadata_version(self) -> int:
        """The level that determines which records this cluster may contain."""
        return self.levels.get(METADATA_VERSION, METADATA_VERSION_LOWEST)

    @property
    def is_elr_enabled(self) -> bool:
        """Whether replicas that left the ISR with all committed data may lead (KIP-966)."""
        return self.level_of(ELR_VERSION) > 0

    def level_of(self, feature: str) -> int:
        """Return the finalized level; 0 if there is none."""
        return self.levels.get(feature, 0)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record of this family."""
        assert isinstance(record, FeatureLevelRecord)
        if record.feature_level == 0:
            self.levels.pop(record.name, None)
        else:
            self.levels[record.name] = record.feature_level

    def records(self, metadata_version: int) -> Iterator[MetadataRecord]:
        """Yield the records of this family for a snapshot, with the current state. metadata.version
        comes first, because it determines how the rest is read."""
        levels = sorted(self.levels.items(), key=lambda each: (each[0] != METADATA_VERSION, each))
        return (FeatureLevelRecord(name=name, feature_level=level) for name, level in levels)
