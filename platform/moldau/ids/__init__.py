"""Kafka's 128-bit ids: 16 bytes in memory, 22 characters of URL-safe base64 for people.

Plain `bytes` and not a class, because a fetch response carries one a topic and the codec must not
make an object more than it has to.
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
    """Where new ids come from: `random.Random` and `moldau.runtime`'s randomness both fit."""

    def randbytes(self, n: int, /) -> bytes: ...


def format_uuid(uuid: Uuid) -> str:
    """The 22 characters that Kafka's tools print."""
    assert len(uuid) == 16
    return base64.urlsafe_b64encode(uuid)[:22].decode("ascii")


def parse_uuid(text: str) -> Uuid:
    """The id that `format_uuid` wrote; ValueError names text that is not one.

    The last character has four bits more than an id. As in Kafka they do not count: ids that
    people typed (`MkU3OEVBNTcwNTJENDM2Qk`, known from many compose files) have them set.
    """
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not an id: 22 characters of URL-safe base64") from error
    if len(text) != 22 or len(uuid) != 16 or "+" in text or "/" in text:
        raise ValueError(f"{text!r} is not an id: 22 characters of URL-safe base64")
    return uuid


def new_uuid(random: RandomBytes) -> Uuid:
    """A fresh id: never a reserved one; its text never starts with `-`, which looks like a flag."""
    while True:
        uuid = random.randbytes(16)
        if uuid not in _RESERVED and uuid[0] >> 2 != 62:
            return uuid
