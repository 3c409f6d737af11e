"""Kafka's names for what a group may be. No IO."""

from __future__ import annotations

from typing import Final

GROUP_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
GROUP_TYPES: Final = ("classic", "consumer", "share", "streams")
