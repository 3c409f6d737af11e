"""The client's side of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. No IO. Kerberos,
which has IO of its own, is in `gss`.

An exchange is a generator: it yields the bytes to send and is sent the server's bytes. It returns
when the server has proved itself, and raises LoginRefused if it has not. A `Derivation` that it
yields is a key to derive from the password, which takes long, and `Work` is a step that may wait
for others: the caller does both in a thread.

Invariants: a password leaves in no form but the one that its mechanism sends. A server that asks
for fewer iterations than `ITERATIONS_MIN`, or for more than `ITERATIONS_MAX`, is refused, as is one
whose nonce does not begin with ours, or that cannot prove that it knows the password's key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import field
from typing import Final, NamedTuple, TypeAlias

from moldau.deferred import dataclass, deferred_pattern
from moldau.errors.codes import ErrorCode, KafkaError
from moldau.protocol.scram import (
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
    ScramMechanism,
    salted_password,
    server_keys,
)

ITERATIONS_MAX: Final = 1_000_000
"""The most iterations that a server may ask for: about a quarter of a second of work."""
_GS2: Final = "n,,"
_SALT_BYTES_MAX: Final = 1024
_SERVER_FIRST: Final = deferred_pattern(
    r"r=([\x21-\x2b\x2d-\x7e]+),s=([A-Za-z0-9+/=]+),i=([0-9]{1,9})"
)
_SERVER_FINAL: Final = deferred_pattern(r"(?:v=([A-Za-z0-9+/=]+)|e=([^,]*))(?:,.*)?", re.DOTALL)
_SEPARATOR: Final = "\x01"


class LoginRefused(KafkaError):
    """The broker refused the login, or could not prove itself. Retrying does not help."""

    @property
    def retriable(self) -> bool:
        return False


class Derivation(NamedTuple):
    """A key to derive from a password."""

    mechanism: ScramMechanism
    password: str
    salt: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"<Derivation {self.mechanism.name} iterations={self.iterations}>"

    def result(self) -> bytes:
        """Derive it."""
        return salted_password(self.mechanism, self.password, self.salt, self.iterations)


class Work(NamedTuple):
    """A step that may wait for others. It raises KafkaError."""

    result: Callable[[], bytes]


Exchange: TypeAlias = "Generator[bytes | Derivation | Work, bytes, None]"


@dataclass(frozen=True, slots=True)
class Token:
    """An OAuth token, and the extensions that go with it."""

    value: str = field(repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


def plain(user: str, password: str) -> Exchange:
    """Log in with PLAIN (RFC 4616)."""
    yield b"\0".join((b"", user.encode(), password.encode()))


def scram(
    mechanism: ScramMechanism,
    user: str,
    password: str,
    nonce: str,
    *,
    by_token: bool = False,
) -> Exchange:
    """Log in with SCRAM (RFC 5802). `nonce` is random and used once. `by_token`: the user and the
    password are those of a delegation token."""
    assert mechanism.sasl_name in SCRAM_MECHANISMS
    extensions = ",tokenauth=true" if by_token else ""
    first_bare = f"n={_escaped(user)},r={nonce}{extensions}"
    server_first = _text((yield (_GS2 + first_bare).encode()))
    found = _SERVER_FIRST.fullmatch(server_first)
    if found is None:
        raise _refused("the broker's first SCRAM message is malformed")
    server_nonce, iterations = found[1], int(found[3])
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise _refused("the broker's SCRAM nonce does not belong to this login")
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise _refused(
            f"the broker asks for {iterations} SCRAM iterations; allowed are {ITERATIONS_MIN} to "
            f"{ITERATIONS_MAX}"
        )
    salt = _decoded(found[2])
    if len(salt) > _SALT_BYTES_MAX:
        raise _refused("the broker's SCRAM salt is too long")
    salted = yield Derivation(mechanism, password, salt, iterations)
    final_bare = f"c={_encoded(_GS2.encode())},r={server_nonce}"
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    signature = hmac.digest(stored_key, signed, mechanism.digest)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = _text((yield f"{final_bare},p={_encoded(proof)}".encode()))
    answer = _SERVER_FINAL.fullmatch(server_final)
    if answer is None:
        raise _refused("the broker's last SCRAM message is malformed")
    if answer[2] is not None:
        raise _refused(f"the broker refuses the login: {answer[2][:100]}")
    server_key = server_keys(mechanism, salted).server_key
    expected = hmac.digest(server_key, signed, mechanism.digest)
    if not hmac.compare_digest(expected, _decoded(answer[1])):
        raise _refused("the broker cannot prove that it knows the password's key")


def oauth_bearer(token: Token) -> Exchange:
    """Log in with OAUTHBEARER (RFC 7628)."""
    pairs = {"auth": f"Bearer {token.value}", **token.extensions}
    message = "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items())
    answer = yield f"{_GS2}{_SEPARATOR}{message}{_SEPARATOR}".encode()
    if answer:
        yield _SEPARATOR.encode()  # the broker says why in the error that follows
        raise _refused("the broker refuses the token")


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise _refused("a SCRAM message of the broker is malformed") from error


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _refused("a SCRAM message of the broker is not UTF-8") from error


def _refused(why: str) -> LoginRefused:
    return LoginRefused(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
