"""Topics that an app makes for itself, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RepartitionTopic:
    """Carries records to the partition of their new key. Purged behind the committed offset.

    `partitions` is None where it follows from the inputs (see plan.partitions).
    """

    name: str
    partitions: int | None = None

    def config(self) -> dict[str, str]:
        return {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "segment.bytes": str(50 * 1024 * 1024),
        }
