"""The special values of retention limits, and their comparison."""

from __future__ import annotations

from typing import Final

NO_LIMIT: Final = -1
AS_RETENTION: Final = -2  # for local retention: the same as retention itself


def exceeds_retention(local: int, whole: int) -> bool:
    """Whether the limit for the local disk is larger than the whole retention."""
    if local == AS_RETENTION or whole <= NO_LIMIT:
        return False
    return local == NO_LIMIT or local > whole
