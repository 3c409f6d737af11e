"""The special values of retention limits and of lags behind them, and their comparison."""

from __future__ import annotations

from typing import Final

NO_LIMIT: Final = -1
AS_RETENTION: Final = -2  # for local retention: the same as retention itself
AS_LOCAL_RETENTION: Final = -1  # for the lag of remote copies: as long as segments stay local


def local_limit(local: int, whole: int) -> int:
    """Return the limit for the local disk. `whole` is that of both tiers."""
    return whole if local == AS_RETENTION else local


def exceeds_local(lag: int, local: int) -> bool:
    """Whether segments would leave the local disk before the lag lets them be copied."""
    return lag > 0 and 0 <= local < lag


def exceeds_retention(local: int, whole: int) -> bool:
    """Whether the limit for the local disk is larger than the whole retention."""
    if local == AS_RETENTION or whole <= NO_LIMIT:
        return False
    return local == NO_LIMIT or local > whole
