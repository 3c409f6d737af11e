"""`moldau storage format --add-scram`: users that a new cluster has from its first record.

A cluster whose listeners want SCRAM has no user that could make the first one, so it is written
into the bootstrap file, in kafka-storage's form:

    --add-scram 'SCRAM-SHA-256=[name=admin,password=secret]'

The brackets also take `salt` and `saltedpassword` (base64) and `iterations`.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from typing import TYPE_CHECKING, Final

from moldau.cli.command import UsageError
from moldau.protocol.schemas.metadata_log import UserScramCredentialRecord
from moldau.protocol.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    SCRAM_MECHANISMS,
    ScramMechanism,
    salted_password,
    server_keys,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_FORM: Final = "SCRAM-SHA-256=[name=USER,password=PASSWORD]"
_KNOWN: Final = ("name", "password", "salt", "saltedpassword", "iterations")


def credential_of(text: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    """Return the record of one `--add-scram`. Raise UsageError, which names no password."""
    name, equals, rest = text.strip().partition("=")
    if not equals or not rest.startswith("[") or not rest.endswith("]"):
        raise UsageError(f"--add-scram: give {_FORM}")
    mechanism = SCRAM_MECHANISMS.get(name)
    if mechanism is None:
        raise UsageError(
            f"--add-scram: no mechanism {name!r}; there are {', '.join(SCRAM_MECHANISMS)}"
        )
    parts = _parts(rest[1:-1])
    user = parts.get("name", "")
    if not user:
        raise UsageError(f"--add-scram: no name of a user; give {_FORM}")
    iterations = _iterations(user, parts.get("iterations", str(ITERATIONS_MIN)))
    salt = _decoded(user, "salt", parts["salt"]) if "salt" in parts else random_bytes(SALT_BYTES)
    keys = server_keys(mechanism, _salted(mechanism, parts, salt, iterations))
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism,
        salt=salt,
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=iterations,
    )


def _parts(inside: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for each in inside.split(","):
        name, equals, value = each.partition("=")
        if not equals or name not in _KNOWN:  # the text may be part of a password
            raise UsageError(
                f"--add-scram: inside the brackets stand {', '.join(_KNOWN)}, each with = and a "
                "value, and commas between them; a password with a comma is given as "
                "salt and saltedpassword"
            )
        if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
            value = value[1:-1]
        parts[name] = value
    return parts


def _iterations(user: str, text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not ITERATIONS_MIN <= number <= ITERATIONS_MAX:
        raise UsageError(
            f"--add-scram: iterations={text} of {user!r}: give {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    return number


def _salted(
    mechanism: ScramMechanism, parts: dict[str, str], salt: bytes, iterations: int
) -> bytes:
    user = parts["name"]
    if "password" in parts:
        if not parts["password"]:
            raise UsageError(f"--add-scram: the password of {user!r} is empty")
        return salted_password(mechanism, parts["password"], salt, iterations)
    if "saltedpassword" not in parts or "salt" not in parts:
        raise UsageError(
            f"--add-scram: {user!r} needs a password, or saltedpassword together with salt"
        )
    return _decoded(user, "saltedpassword", parts["saltedpassword"])


def _decoded(user: str, name: str, text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Error, ValueError):
        raise UsageError(f"--add-scram: {name} of {user!r} is not base64") from None
