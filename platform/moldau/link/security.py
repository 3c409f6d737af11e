"""How a client's connections are encrypted, and how they log in, from its settings.

Invariants: a `Security` shows no password. What the settings ask for and cannot have is refused
before anything connects. Contexts follow their files, so a new certificate needs no restart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.link import security_settings as rows
from moldau.link.login import oauth_settings as oauth_rows
from moldau.link.login import token_settings
from moldau.link.login.jaas import LoginModule, parse_jaas
from moldau.link.login.msk_iam import MskIam
from moldau.link.login.oauth_settings import MSK_IAM, OIDC_PROVIDERS
from moldau.link.login.one_thread import OneThread
from moldau.link.login.sasl import Derivation, Exchange, Work, oauth_bearer, plain, scram
from moldau.link.login.token import GivenTokens, TokenSource, token_of
from moldau.link.tls import ReloadedContext, client_context, tls_files
from moldau.protocol.scram import SCRAM_MECHANISMS

if TYPE_CHECKING:
    import ssl

    from moldau.config import Secret, Settings
    from moldau.link.login.gss import KerberosLogin
    from moldau.link.login.token_endpoint import TokenEndpoint
    from moldau.runtime import Runtime

PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = rows.OAUTHBEARER
GSSAPI: Final = "GSSAPI"
_PRESETS: Final = (*OIDC_PROVIDERS, MSK_IAM)
_OF_AWS: Final = "AWS_MSK_IAM"
MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER, GSSAPI)
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
    kerberos: KerberosLogin | None = None

    async def prepare(self) -> None:
        """Ask for a token that logins can share, before one of them begins: it takes its time.
        Raise KafkaError."""
        if self.mechanism == OAUTHBEARER:
            from moldau.link.login.endpoint_tokens import EndpointTokens

            if isinstance(self.tokens, EndpointTokens):
                await self.tokens()

    async def exchange(self, runtime: Runtime, host: str) -> Exchange:
        """Begin a login at the broker on `host`."""
        if self.mechanism == GSSAPI:
            from moldau.link.login.gss import kerberos

            assert self.kerberos is not None
            return kerberos(self.kerberos, host)
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
        self._thread = OneThread()

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

    async def work(self, runtime: Runtime, wanted: Work) -> bytes:
        """Do a step of a login in a thread, one at a time."""
        return await self._thread.result(runtime, wanted.result)


def security_of(
    settings: Settings, runtime: Runtime, tokens: GivenTokens | None = None
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
    if not protocol.startswith("SASL"):
        return Security(context, None)
    source = _token_source(settings, runtime, tokens)
    return Security(context, _credentials(settings, source))


def _token_source(
    settings: Settings, runtime: Runtime, given: GivenTokens | None
) -> TokenSource | None:
    """Return the function that brings tokens: the program's own, or that of a preset."""
    if settings[rows.sasl_mechanism].upper() != OAUTHBEARER:
        return None
    named = _names_tokens(settings)
    if given is not None and named:
        raise ConfigError(
            "there are two sources of tokens: give an object as oauth=, or the settings of one "
            f"({token_settings.sasl_oauthbearer_token_endpoint_url.name}), and not both",
            setting=oauth_rows.oauth.name,
        )
    if callable(given) or (given is None and not named):
        return given
    from moldau.link.settings import bootstrap_servers
    from moldau.runtime.children import process_environment

    bootstrap = ",".join(settings[bootstrap_servers])
    preset = given or _preset(settings)
    if isinstance(preset, MskIam):
        return partial(preset.token, runtime, bootstrap, process_environment())
    from moldau.link.login.endpoint_tokens import EndpointTokens

    return EndpointTokens(preset, runtime, bootstrap)


def _preset(settings: Settings) -> MskIam | TokenEndpoint:
    """Return the source of tokens that the settings name. Raise ConfigError."""
    if (settings[oauth_rows.oauth] or "").lower() == MSK_IAM:
        if settings[token_settings.sasl_oauthbearer_token_endpoint_url]:
            raise ConfigError(
                f"it has no effect with {oauth_rows.oauth.name}={MSK_IAM}: remove it",
                setting=token_settings.sasl_oauthbearer_token_endpoint_url.name,
            )
        return MskIam()
    from moldau.link.login.named_endpoint import endpoint_of

    return endpoint_of(settings)


def security_fault(settings: Settings) -> str | None:
    """Check that the settings of encryption and login are whole: a rule of a table. Return the
    error or None."""
    protocol = settings[rows.security_protocol].upper()
    preset = settings[oauth_rows.oauth]
    if preset and preset.lower() not in _PRESETS:
        return (
            f"{oauth_rows.oauth.name} is one of {', '.join(_PRESETS)}, or an async function that "
            "is given in Python"
        )
    try:
        if protocol.endswith("SSL"):
            tls_files(settings)
        if protocol.startswith("SASL"):
            found = _credentials(settings, _any_token)
            if found.mechanism == OAUTHBEARER and _names_tokens(settings):
                _preset(settings)
    except ConfigError as error:
        return f"{rows.security_protocol.name}={protocol}: {error}"
    return None


def _names_tokens(settings: Settings) -> bool:
    """Whether the settings have a source of tokens, or a part of one."""
    return any(
        settings[row]
        for row in (
            oauth_rows.oauth,
            token_settings.sasl_oauthbearer_token_endpoint_url,
            token_settings.sasl_oauthbearer_client_credentials_client_id,
            token_settings.sasl_oauthbearer_client_credentials_client_secret,
        )
    )


async def _any_token() -> str:
    raise AssertionError("only for the check of settings")


def _credentials(settings: Settings, tokens: TokenSource | None) -> Credentials:
    return credentials_from(
        settings[rows.sasl_mechanism],
        settings[rows.sasl_jaas_config],
        settings[rows.sasl_username],
        settings[rows.sasl_password],
        tokens=tokens,
        service=settings[rows.sasl_kerberos_service_name],
        principal=settings[rows.sasl_kerberos_principal],
        keytab=settings[rows.sasl_kerberos_keytab],
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
    Of `others`, `tokens` is the source of OAuth tokens; `service`, `principal` and `keytab` are of
    Kerberos."""
    from moldau.config import Secret

    tokens: TokenSource | None = others.pop("tokens", None)
    wanted = mechanism.upper()
    if wanted == _OF_AWS:
        raise ConfigError(
            f"brokers of MSK take its tokens by {OAUTHBEARER} too: give sasl.mechanism="
            f"{OAUTHBEARER} and oauth={MSK_IAM}",
            setting="sasl.mechanism",
            value=mechanism,
        )
    if wanted not in MECHANISMS:
        raise ConfigError(
            "this mechanism is not spoken", setting="sasl.mechanism", value=mechanism,
            allowed=MECHANISMS,
        )  # fmt: skip
    if wanted == OAUTHBEARER:
        if tokens is None:
            raise ConfigError(
                f"{OAUTHBEARER} needs a source of tokens: give "
                f"{token_settings.sasl_oauthbearer_token_endpoint_url.name} with a client's id and "
                f"secret, or oauth={', '.join(_PRESETS)}, or in Python an async function",
                setting="sasl.mechanism",
            )
        return Credentials(OAUTHBEARER, tokens=tokens)
    module = None if jaas is None else _module(jaas, wanted)
    if wanted == GSSAPI:
        return Credentials(GSSAPI, kerberos=_kerberos(module, **others))
    if module is None:
        return _with_password(wanted, user, password)
    is_token = module.options.get("tokenauth", "").lower() == "true"
    given = module.options.get("password")
    secret = None if given is None else Secret(given)
    _check_one_login(module, user, password)
    return _with_password(wanted, module.options.get("username"), secret, is_token)


def _check_one_login(module: LoginModule, user: str | None, password: Secret | None) -> None:
    """Raise ConfigError if a user or password beside the login module says something else."""
    others = {
        "username": (rows.sasl_username.name, user),
        "password": (rows.sasl_password.name, None if password is None else password.reveal()),
    }
    for option, (name, value) in others.items():
        if value is not None and value != module.options.get(option):
            raise ConfigError(
                f"it has no effect beside sasl.jaas.config, whose {option} is another: give one of "
                "the two",
                setting=name,
            )


def _module(jaas: Secret, mechanism: str) -> LoginModule:
    module = parse_jaas(jaas.reveal())
    if not mechanism.startswith(module.family):
        raise ConfigError(
            f"its login module is one of {module.family}, and sasl.mechanism is {mechanism}",
            setting="sasl.jaas.config",
        )
    return module


def _kerberos(
    module: LoginModule | None,
    service: str | None = None,
    principal: str | None = None,
    keytab: str | None = None,
) -> KerberosLogin:
    from moldau.link.login.gss import kerberos_login, library

    library()
    return kerberos_login(service, principal, keytab, {} if module is None else module.options)


def _with_password(
    mechanism: str, user: str | None, password: Secret | None, is_token: bool = False
) -> Credentials:
    if user is None or password is None:
        raise ConfigError(
            "a login needs a user and a password: give sasl.jaas.config with both, or "
            "sasl.username and sasl.password",
            setting="sasl.jaas.config",
        )
    return Credentials(mechanism, user, password, is_token)
