"""Reserved ids for a log directory that is not known (KIP-858)."""

from __future__ import annotations

from typing import Final

from moldau.ids import ZERO_UUID, Uuid

DIRECTORY_MIGRATING: Final[Uuid] = ZERO_UUID
"""Chosen before directories had ids; the controller does not know the directory."""
DIRECTORY_UNASSIGNED: Final[Uuid] = bytes(15) + b"\x01"
"""The directory is not chosen yet."""

_RESERVED: Final = 100


def is_reserved(directory_id: Uuid) -> bool:
    """Whether the id is reserved, so that no real directory may have it."""
    return int.from_bytes(directory_id, "big") < _RESERVED
