"""Encryption of remote segments: a key for each segment, wrapped by a key of the ring.

The ring is a text file, a line a key: a name and 32 bytes in base64. The last line is the key for
new segments; the others open what was written before. So a key is rotated by one more line, and
what is in the store stays as it is.

Invariants: a segment's own key is random and used for one copy of one segment, so a nonce may be a
number. Every text that is sealed is bound to its place by `bound_to`: it opens nowhere else. What
does not open raises CorruptLog. Keys appear in no text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.broker.settings.tiered import remote_storage_encryption_keys
from moldau.errors import ConfigError, CorruptLog
from moldau.plugins.extras import need
from moldau.records import Buffer

if TYPE_CHECKING:
    from random import Random

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
WRAPPED_BYTES: Final = NONCE_BYTES + KEY_BYTES + TAG_BYTES
KEY_NAME_BYTES_MAX: Final = 32
_EXTRA: Final = "tiered"
_SETTING: Final = remote_storage_encryption_keys.name


class SegmentCipher:
    """AES-256-GCM by the key of one segment."""

    __slots__ = ("_cipher", "_invalid")

    def __init__(self, key: bytes) -> None:
        self._cipher: Any = need("cryptography.hazmat.primitives.ciphers.aead", _EXTRA).AESGCM(key)
        self._invalid: type[Exception] = need("cryptography.exceptions", _EXTRA).InvalidTag

    def seal(self, number: int, data: Buffer, bound_to: bytes) -> bytes:
        """Encrypt. A number stands for one text, for ever."""
        return self.seal_with(number.to_bytes(NONCE_BYTES, "big"), data, bound_to)

    def open(self, number: int, data: Buffer, bound_to: bytes) -> bytes:
        """Decrypt what `seal` returned for the same number and place."""
        return self.open_with(number.to_bytes(NONCE_BYTES, "big"), data, bound_to)

    def seal_with(self, nonce: bytes, data: Buffer, bound_to: bytes) -> bytes:
        sealed: bytes = self._cipher.encrypt(nonce, data, bound_to)
        return sealed

    def open_with(self, nonce: bytes, data: Buffer, bound_to: bytes) -> bytes:
        try:
            opened: bytes = self._cipher.decrypt(nonce, data, bound_to)
        except (self._invalid, ValueError):
            raise CorruptLog("encrypted bytes do not open with their key and place") from None
        return opened


class KeyRing:
    """The keys by name. `active` is the one for new segments."""

    def __init__(self, keys: Mapping[str, bytes], active: str) -> None:
        assert active in keys
        self._keys = dict(keys)
        self.active = active

    def __repr__(self) -> str:
        return f"KeyRing({sorted(self._keys)}, active={self.active!r})"

    def new_key(self, random: Random, bound_to: bytes) -> tuple[SegmentCipher, bytes]:
        """Return a new cipher for one segment, and its key wrapped by the active key."""
        key, nonce = random.randbytes(KEY_BYTES), random.randbytes(NONCE_BYTES)
        wrapped = SegmentCipher(self._keys[self.active]).seal_with(nonce, key, bound_to)
        return SegmentCipher(key), nonce + wrapped

    def unwrap(self, name: str, wrapped: bytes, bound_to: bytes) -> SegmentCipher:
        """Return the cipher of a segment. Raise ConfigError if the ring lacks the key."""
        if name not in self._keys:
            raise ConfigError(
                f"a remote segment is encrypted by a key that {_SETTING} does not have: add it",
                key=name,
            )
        ring_key = SegmentCipher(self._keys[name])
        nonce, sealed = wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:]
        return SegmentCipher(ring_key.open_with(nonce, sealed, bound_to))


def parse_key_ring(text: str, path: str) -> KeyRing:
    """Return the ring that a file holds. Raise ConfigError with the number of a bad line."""
    keys: dict[str, bytes] = {}
    active = ""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        try:
            name, encoded = words
            key = base64.b64decode(encoded, validate=True)
        except (ValueError, binascii.Error):
            raise _refusal("a line is a name and a key in base64", path, number) from None
        if len(key) != KEY_BYTES:
            raise _refusal(f"a key is {KEY_BYTES} bytes", path, number)
        if len(name.encode()) > KEY_NAME_BYTES_MAX:
            raise _refusal(f"a key's name is {KEY_NAME_BYTES_MAX} bytes at most", path, number)
        if name in keys:
            raise _refusal("two keys have this name", path, number)
        keys[name] = key
        active = name
    if not keys:
        raise _refusal("there is no key", path, 1)
    return KeyRing(keys, active)


def _refusal(why: str, path: str, line: int) -> ConfigError:
    return ConfigError(f"{_SETTING}: {why}", path=path, line=line)
