"""The APIs of Apache Kafka that later versions of ours bring: ApiVersions leaves them out."""

from __future__ import annotations

from typing import Final

LATER_APIS: Final = frozenset(
    (
        "StreamsGroupHeartbeat",
        "StreamsGroupDescribe",
    )
)
