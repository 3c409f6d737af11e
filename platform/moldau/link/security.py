"""How a client's connections are encrypted, and how they log in, from its settings.

Invariants: a `Security` shows no password. What the settings ask for and cannot have is refused
before anything connects. Contexts follow their files, so a new certificate needs no restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.errors import ConfigError
from moldau.link import security_settings as rows
from moldau.link.jaas import parse_jaas
from moldau.link.sasl import Derivation, Exchange, oauth_bearer, plain, scram
from moldau.link.tls import ReloadedContext, client_context, tls_files
from moldau.link.token import TokenSource, token_of
from moldau.protocol.scram import SCRAM_MECHANISMS

if TYPE_CHECKING:
    import ssl

    from moldau.config import Secret, Settings
    from moldau.runtime import Runtime

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)
_NONCE_BITS: Final = 144
_KEYS_KEPT: Final = 4


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client logs in with."""

    mechanism: str
    user: str = ""
    password: Secret | None = field(default=None, repr=False)
    is_token: bool = False
    """Whether they are those of a delegation token."""
    tokens: TokenSource | None = field(default=None, repr=False)

    async def exchange(self, runtime: Runtime) -> Exchange:
        """Begin a login."""
        if self.mechanism == OAUTHBEARER:
            assert self.tokens is not None
            return oauth_bearer(await token_of(runtime, self.tokens))
        assert self.password is not None
        if self.mechanism == PLAIN:
            return plain(self.user, self.password.reveal())
        nonce = f"{runtime.random.getrandbits(_NONCE_BITS):x}"
        mechanism = SCRAM_MECHANISMS[self.mechanism]
        return scram(mechanism, self.user, self.password.reveal(), nonce, by_token=self.is_token)


class Security:
    """The encryption and the login of all connections of one client."""

    def __init__(
        self, context: Callable[[], ssl.SSLContext] | None, credentials: Credentials | None
    ) -> None:
        self.credentials = credentials
        self._context = context
        self._keys: dict[Derivation, bytes] = {}

    @property
    def is_encrypted(self) -> bool:
        return self._context is not None

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS context for a new connection; None for plain text."""
        return None if self._context is None else self._context()

    async def derive(self, runtime: Runtime, wanted: Derivation) -> bytes:
        """Return the key of a password. It is derived in a thread, and kept for the next login."""
        known = self._keys.get(wanted)
        if known is None:
            known = await runtime.run_blocking(wanted.result)
            if len(self._keys) >= _KEYS_KEPT:
                self._keys.pop(next(iter(self._keys)))
            self._keys[wanted] = known
        return known


def security_of(
    settings: Settings, runtime: Runtime, tokens: TokenSource | None = None
) -> Security | None:
    """Return the security of a client; None for plain text without a login. Raise ConfigError for
    files that cannot be used."""
    protocol = settings[rows.security_protocol].upper()
    if protocol == "PLAINTEXT":
        return None
    context = None
    if protocol.endswith("SSL"):
        tls = tls_files(settings)
        context = ReloadedContext(partial(client_context, tls), tls, runtime.clock)
    credentials = _credentials(settings, tokens) if protocol.startswith("SASL") else None
    return Security(context, credentials)


def security_fault(settings: Settings) -> str | None:
    """Check that the settings of encryption and login are whole: a rule of a table. Return the
    error or None."""
    protocol = settings[rows.security_protocol].upper()
    if settings[rows.oauth] is not None:
        return f"{rows.oauth.name} is an async function, given in Python"
    try:
        if protocol.endswith("SSL"):
            tls_files(settings)
        if protocol.startswith("SASL"):
            _credentials(settings, _any_token)
    except ConfigError as error:
        return f"{rows.security_protocol.name}={protocol}: {error}"
    return None


async def _any_token() -> str:
    raise AssertionError("only for the check of settings")


def _credentials(settings: Settings, tokens: TokenSource | None) -> Credentials:
    return credentials_from(
        settings[rows.sasl_mechanism],
        settings[rows.sasl_jaas_config],
        settings[rows.sasl_username],
        settings[rows.sasl_password],
        tokens=tokens,
    )


def user_of(settings: Settings) -> str | None:
    """Return the user that a client with these settings logs in as; None without a password."""
    if not settings[rows.security_protocol].upper().startswith("SASL"):
        return None
    return _credentials(settings, _any_token).user


def credentials_from(
    mechanism: str,
    jaas: Secret | None,
    user: str | None = None,
    password: Secret | None = None,
    **others: Any,
) -> Credentials:
    """Return credentials from `sasl.jaas.config`, or from a user and a password. Raise ConfigError.
    Of `others`, `tokens` is the source of OAuth tokens."""
    from moldau.config import Secret

    tokens: TokenSource | None = others.get("tokens")
    wanted = mechanism.upper()
    if wanted not in MECHANISMS:
        raise ConfigError(
            "this mechanism is not spoken", setting="sasl.mechanism", value=mechanism,
            allowed=MECHANISMS,
        )  # fmt: skip
    if wanted == OAUTHBEARER:
        if tokens is None:
            raise ConfigError(
                "OAUTHBEARER needs a source of tokens: give oauth=, an async function that returns "
                "one",
                setting="sasl.mechanism",
            )
        return Credentials(OAUTHBEARER, tokens=tokens)
    is_token = False
    if jaas is not None:
        module = parse_jaas(jaas.reveal())
        if not wanted.startswith(module.family):
            raise ConfigError(
                f"its login module is one of {module.family}, and sasl.mechanism is {wanted}",
                setting="sasl.jaas.config",
            )
        user = module.options.get("username")
        secret = module.options.get("password")
        password = None if secret is None else Secret(secret)
        is_token = module.options.get("tokenauth", "").lower() == "true"
    if user is None or password is None:
        raise ConfigError(
            "a login needs a user and a password: give sasl.jaas.config with both, or "
            "sasl.username and sasl.password",
            setting="sasl.jaas.config",
        )
    return Credentials(wanted, user, password, is_token)
