"""What a group keeps for a partition."""

from __future__ import annotations

from typing import NamedTuple


class Committed(NamedTuple):
    """The offset at which a group continues, and the text that was kept with it."""

    offset: int
    metadata: str
