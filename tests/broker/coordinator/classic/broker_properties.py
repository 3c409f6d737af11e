"""The settings of a real broker that plays the scripts."""

from __future__ import annotations

from typing import Final

from tests.broker.coordinator.classic.script import SETTINGS

PROPERTIES: Final = {
    **{name: str(value) for name, value in SETTINGS.items()},
    "offsets.topic.num.partitions": "1",
}
