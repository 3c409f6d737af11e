"""SCRAM's mechanisms and the keys that are derived from a password (RFC 5802, KIP-84). No IO.

    salted = salted_password(ScramMechanism.SHA_256, "secret", salt, iterations)
    keys = server_keys(ScramMechanism.SHA_256, salted)

Invariants: a server keeps `ServerKeys` and never a password. Iterations have an upper bound on both
sides, because deriving a key takes time in proportion: without it, the peer decides how long.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import IntEnum
from typing import Final, NamedTuple

SALT_BYTES: Final = 32
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
"""The most iterations of a stored credential, as in Kafka."""


class ScramMechanism(IntEnum):
    """A mechanism, by Kafka's number; `UNKNOWN` is one that is newer than this code."""

    UNKNOWN = 0
    SHA_256 = 1
    SHA_512 = 2

    @classmethod
    def _missing_(cls, value: object) -> ScramMechanism:
        return cls.UNKNOWN

    @property
    def sasl_name(self) -> str:
        """The name in SASL, such as SCRAM-SHA-256."""
        assert self is not ScramMechanism.UNKNOWN
        return f"SCRAM-{self.name.replace('_', '-')}"

    @property
    def digest(self) -> str:
        """The name of the hash function in `hashlib`."""
        assert self is not ScramMechanism.UNKNOWN
        return self.name.replace("_", "").lower()


SCRAM_MECHANISMS: Final = {
    each.sasl_name: each for each in (ScramMechanism.SHA_256, ScramMechanism.SHA_512)
}
"""The mechanisms by their name in SASL."""


class ServerKeys(NamedTuple):
    """The keys with which a server checks a client's proof, and proves itself."""

    stored_key: bytes
    server_key: bytes


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Derive the key of a password. It takes about a millisecond for each 4096 iterations. As in
    Kafka, the password is not normalized by SASLprep."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def server_keys(mechanism: ScramMechanism, salted: bytes) -> ServerKeys:
    """Return the keys of a server from a salted password."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    return ServerKeys(stored_key, hmac.digest(salted, b"Server Key", mechanism.digest))
