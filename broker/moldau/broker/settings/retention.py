"""How long is long: the special numbers of retention and how two of them compare."""

from __future__ import annotations

from typing import Final

NO_LIMIT: Final = -1
AS_RETENTION: Final = -2  # of local retention: the same as retention itself


def exceeds_retention(local: int, whole: int) -> bool:
    """Whether more would stay on local disk than is kept at all."""
    if local == AS_RETENTION or whole <= NO_LIMIT:
        return False
    return local == NO_LIMIT or local > whole
