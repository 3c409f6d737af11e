"""What replicas of a tiered partition promise, as a failure names it."""

from __future__ import annotations

from enum import StrEnum


class Promise(StrEnum):
    """What holds all along, and what holds in the end."""

    KEPT = "the leader has each acknowledged batch in one tier at least, as it was"
    ONCE = "a batch that is sent again is known, whoever leads"
    EPOCHS = "a replica that may be elected knows the epoch of each acknowledged batch"
    NO_HOLE = "a replica that may be elected has no hole between its start and its own records"
    JOINS = "in the end all replicas are in sync and equal"
