"""Kafka's names for the states and types of groups. No IO."""

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
