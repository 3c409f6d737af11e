"""Kafka's 128-bit ids: 16 bytes in memory, 22 characters of URL-safe base64 as text.

They are plain `bytes` and not a class, because a fetch response has one for each topic and the
codec must not create more objects than necessary.
"""

from __future__ import annotations

import base64
import binascii
from typing import Protocol, TypeAlias

Uuid: TypeAlias = bytes

ZERO_UUID: Uuid = bytes(16)
METADATA_TOPIC_ID: Uuid = bytes(15) + b"\x01"

_RESERVED = frozenset((ZERO_UUID, METADATA_TOPIC_ID))


class RandomBytes(Protocol):
    """A source of random bytes for new ids: `random.Random` and the runtime's randomness fit."""

    def randbytes(self, n: int, /) -> bytes: ...


def format_uuid(uuid: Uuid) -> str:
    """Return the id as the 22 characters that Kafka's tools print."""
    assert len(uuid) == 16
    return base64.urlsafe_b64encode(uuid)[:22].decode("ascii")


def parse_uuid(text: str) -> Uuid:
    """Return the id that `format_uuid` wrote. Raise ValueError for text that is not an id.

    The last character has four bits more than an id. As in Kafka they are ignored: ids that people
    typed (`MkU3OEVBNTcwNTJENDM2Qk`, known from many compose files) have them set.
    """
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not an id: 22 characters of URL-safe base64") from error
    if len(text) != 22 or len(uuid) != 16 or "+" in text or "/" in text:
        raise ValueError(f"{text!r} is not an id: 22 characters of URL-safe base64")
    return uuid


def new_uuid(random: RandomBytes) -> Uuid:
    """Return a new id: not a reserved one, and its text never starts with `-`, like an option."""
    while True:
        uuid = random.randbytes(16)
        if uuid not in _RESERVED and uuid[0] >> 2 != 62:
            return uuid
