"""Signed assertions, which a client shows to an OAuth provider instead of a secret (RFC 7523).

They are signed here with a private key, or another program keeps one in a file.

Invariants: a private key leaves this machine in no form. A file is sent only if it has the form of
a signed token, so that a setting cannot name just any file to send.
"""

from __future__ import annotations

import json
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from moldau.deferred import dataclass, deferred_pattern
from moldau.errors import ConfigError
from moldau.plugins.extras import install_command
from moldau.runtime.real_files import RealFiles

if TYPE_CHECKING:
    from moldau.config import Secret

_FILE: Final = "sasl.oauthbearer.assertion.file"
_KEY_FILE: Final = "sasl.oauthbearer.assertion.private.key.file"
_TEMPLATE: Final = "sasl.oauthbearer.assertion.template.file"
_JWT: Final = deferred_pattern(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_BYTES_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Assertion:
    """How a client's assertions are made."""

    file: str | None = None
    """A file that has one; else they are signed with the key."""
    key_file: str | None = None
    passphrase: Secret | None = field(default=None, repr=False)
    template_file: str | None = None
    algorithm: str = "RS256"
    claims: tuple[tuple[str, str], ...] = ()
    """Claims of each assertion: issuer, subject, audience."""
    expires_s: int = 300
    begins_s: int = 60
    """How long before now it is valid."""
    has_id: bool = False

    def __post_init__(self) -> None:
        if not self.file and not self.key_file:
            raise ConfigError(f"assertions need a private key: give {_KEY_FILE}, or {_FILE}")

    def text(self, now_ms: int, unique_id: str) -> str:
        """Return an assertion. It reads files: run it on a thread. Raise ConfigError."""
        if self.file:
            found = _read(self.file, _FILE).strip()
            if not _JWT.fullmatch(found):
                raise ConfigError("the file has no signed token", setting=_FILE, path=self.file)
            return found
        assert self.key_file is not None
        return self._signed(now_ms // 1000, unique_id)

    def _signed(self, now_s: int, unique_id: str) -> str:
        try:
            from joserfc import jwt
        except ImportError as error:
            raise ConfigError(
                f"assertions need the package joserfc: {install_command('oauth')}"
            ) from error
        template = self._template()
        header = {**template.get("header", {}), "alg": self.algorithm, "typ": "JWT"}
        payload: dict[str, Any] = {**template.get("payload", {}), **dict(self.claims)}
        payload |= {"iat": now_s, "exp": now_s + self.expires_s, "nbf": now_s - self.begins_s}
        if self.has_id:
            payload["jti"] = unique_id
        return jwt.encode(header, payload, self._key(), [self.algorithm])

    def _key(self) -> Any:
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey, RSAKey

        assert self.key_file is not None
        kind: Any = ECKey if self.algorithm.startswith("ES") else RSAKey
        password = None if self.passphrase is None else self.passphrase.reveal()
        pem = _read(self.key_file, _KEY_FILE)
        try:
            return kind.import_key(pem, password=password)
        except (ValueError, TypeError, JoseError) as error:
            raise ConfigError(
                f"the file has no private key for {self.algorithm}, or its password is wrong",
                setting=_KEY_FILE,
                path=self.key_file,
            ) from error

    def _template(self) -> dict[str, Any]:
        if not self.template_file:
            return {}
        try:
            found = json.loads(_read(self.template_file, _TEMPLATE))
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(
            isinstance(found.get(name, {}), dict) for name in ("header", "payload")
        ):
            raise ConfigError(
                "the file has no JSON object with `header` and `payload`",
                setting=_TEMPLATE,
                path=self.template_file,
            )
        return found


def _read(path: str, setting: str) -> str:
    try:
        text = RealFiles().read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the file cannot be read: {type(error).__name__}", setting=setting, path=path
        ) from error
    if len(text) > _BYTES_MAX:
        raise ConfigError("the file is too large", setting=setting, path=path)
    return text
