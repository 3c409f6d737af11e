"""The security of a node's listeners, and of its connections to other nodes, from its settings.

A listener's own values are under `listener.name.<name>.`, those of one mechanism under
`listener.name.<name>.<mechanism>.`.

Invariants: a listener whose settings are not whole is not opened: the error says which setting is
missing. Certificates follow their files and the dynamic settings from the next handshake on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.broker.security.delegation import TokenLogin, TokenLogins, token_secret_of
from moldau.broker.security.distinguished_name import subject_name
from moldau.broker.security.login import LoginTerms, Method
from moldau.broker.security.mapping import mapper, parse_rules
from moldau.broker.security.oauth import OAUTHBEARER, OAuthServer
from moldau.broker.security.plain import PLAIN, PlainServer, users_of
from moldau.broker.security.scram import ScramServer
from moldau.broker.server.kerberos import kerberos_logins
from moldau.broker.server.login_thread import in_a_thread
from moldau.broker.settings import oauth, read_listeners, sasl, security, tls
from moldau.broker.settings.network import connection_failed_authentication_delay_ms
from moldau.broker.settings.of_listener import own_prefix
from moldau.config import Secret, SettingTable, overrides
from moldau.deferred import dataclass
from moldau.errors import ConfigError
from moldau.link import security_settings as rows
from moldau.link.login import oauth_settings, token_settings
from moldau.link.login.endpoint_tokens import EndpointTokens
from moldau.link.login.jaas import LoginModule, parse_jaas, write_jaas
from moldau.link.login.named_endpoint import endpoint_of, has_meaning
from moldau.link.login.signed_tokens import TokenCheck, TokenTerms
from moldau.link.login.token_endpoint import shown_url
from moldau.link.login.token_keys import KeyFile, KeyTiming, KeyUrl
from moldau.link.security import GSSAPI, Security, credentials_from
from moldau.link.security import Credentials as OwnCredentials
from moldau.link.tls import ReloadedContext, client_context, server_context, tls_files
from moldau.logging.gathering import PeerWarnings
from moldau.protocol.scram import SCRAM_MECHANISMS, ScramMechanism
from moldau.runtime.backoff import Backoff
from moldau.runtime.http_client import check_url
from moldau.runtime.tls import TlsServer

if TYPE_CHECKING:
    import ssl

    from moldau.broker.controller.credentials import Credentials
    from moldau.broker.network import ListenerOptions
    from moldau.broker.settings import Listener
    from moldau.config import Settings
    from moldau.config.table import Row
    from moldau.logging import Logger
    from moldau.runtime import Runtime

MECHANISMS: Final = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER, GSSAPI)
_FILE: Final = "file://"
_NO_CERTIFICATE: Final = "none"
_SECRET_BYTES: Final = 32
_NONCE_BITS: Final = 144
_CLIENT: Final = SettingTable(rows.SECURITY_ROWS)
"""The settings of a client's encryption and login."""


@dataclass(frozen=True, slots=True)
class SecurityGround:
    """What the security of a node stands on."""

    runtime: Runtime
    settings: Callable[[], Settings]
    """Returns the node's settings, with the dynamic ones."""
    credentials: Callable[[], Credentials]
    """Returns the SCRAM credentials and the delegation tokens in the metadata."""
    log: Logger
    secret: bytes = field(repr=False)
    """Random bytes of this node."""
    find_token: Callable[[str, ScramMechanism], TokenLogin | None]
    """Returns what a login with a delegation token gives."""

    @classmethod
    def of(
        cls,
        runtime: Runtime,
        settings: Callable[[], Settings],
        credentials: Callable[[], Credentials],
        log: Logger,
    ) -> SecurityGround:
        secret = runtime.random.randbytes(_SECRET_BYTES)
        key = token_secret_of(settings())
        find_token: Callable[[str, ScramMechanism], TokenLogin | None] = _no_token
        if key is not None:
            logins = TokenLogins(key, lambda: credentials().tokens, runtime.clock.wall_ms)
            find_token = logins.find
        return cls(runtime, settings, credentials, log, secret, find_token)


def _no_token(token_id: str, mechanism: ScramMechanism) -> TokenLogin | None:
    """Find no token: there are none in this cluster."""
    return None


def own_settings(settings: Settings, listener: str) -> Settings:
    """Return the settings of one listener."""
    return settings.with_prefix(own_prefix(listener))


async def secured(
    options: ListenerOptions, listener: Listener, ground: SecurityGround
) -> ListenerOptions:
    """Return the options with encryption and logins as the listener's protocol says. What reads
    files or asks other servers runs in threads. Raise ConfigError that names the listener."""
    protocol = listener.security_protocol
    try:
        if protocol.endswith("SSL"):
            options = replace(options, tls=_tls_server(listener, ground))
        if protocol == "SSL":
            rules = own_settings(ground.settings(), listener.name)[tls.ssl_principal_mapping_rules]
            options = replace(options, principal_of=_principal_of(rules))
        if protocol.startswith("SASL"):
            options = replace(options, login=await _login_terms(listener, ground))
    except ConfigError as error:
        error.context = {**error.context, "listener": listener.name}
        raise
    return options


def _principal_of(rules: str) -> Callable[[bytes], str]:
    short = mapper(parse_rules(rules))
    return lambda certificate: short(subject_name(certificate))


# TLS


class ListenerContext:
    """The TLS context of a listener, which follows its files and the dynamic settings."""

    def __init__(self, listener: Listener, ground: SecurityGround) -> None:
        self._listener = listener
        self._ground = ground
        self._settings = ground.settings()
        self._context = self._make(self._settings)

    def __call__(self) -> ssl.SSLContext:
        """Return the context for a handshake."""
        settings = self._ground.settings()
        if settings is not self._settings:
            self._settings = settings
            try:
                self._context = self._make(settings)
            except ConfigError as error:
                self._report(error)
        return self._context()

    def _make(self, settings: Settings) -> ReloadedContext:
        own = own_settings(settings, self._listener.name)
        terms = tls_files(own)
        make = partial(server_context, terms, client_auth(settings, self._listener))
        return ReloadedContext(make, terms, self._ground.runtime.clock, on_failure=self._report)

    def _report(self, error: ConfigError) -> None:
        self._ground.log.failure(
            "the listener keeps its certificate: the new one cannot be used",
            error,
            listener=self._listener.name,
        )


def client_auth(settings: Settings, listener: Listener) -> str:
    """Return whether clients of a listener must show a certificate. Where they log in, only the
    listener's own setting counts, as in Kafka (KIP-684)."""
    is_own = settings.is_given_under(own_prefix(listener.name), tls.ssl_client_auth)
    if listener.security_protocol == "SASL_SSL" and not is_own:
        return _NO_CERTIFICATE
    return own_settings(settings, listener.name)[tls.ssl_client_auth]


def _warn_of_no_effect(listener: Listener, ground: SecurityGround) -> None:
    """Warn of an `ssl.client.auth` that a listener with logins does not use."""
    asked = own_settings(ground.settings(), listener.name)[tls.ssl_client_auth]
    if client_auth(ground.settings(), listener) != asked:
        name = tls.ssl_client_auth.name
        ground.log.warn(
            f"{name} is for listeners with SSL; clients of this one show no certificate",
            listener=listener.name,
            value=asked,
            instead=f"{own_prefix(listener.name)}{name}",
        )


def _tls_server(listener: Listener, ground: SecurityGround) -> TlsServer:
    _warn_of_no_effect(listener, ground)
    gathering = PeerWarnings(ground.log)
    clock = ground.runtime.clock

    def on_failure(peer: str, reason: str) -> None:
        gathering.warn(
            f"closes connection: {reason}",
            peer.rpartition(":")[0],
            clock.monotonic(),
            listener=listener.name,
            peer=peer,
        )

    return TlsServer(ListenerContext(listener, ground), on_failure)


# Logins


async def _login_terms(listener: Listener, ground: SecurityGround) -> LoginTerms:
    settings = ground.settings()
    own = own_settings(settings, listener.name)
    names = own[sasl.sasl_enabled_mechanisms]
    methods = {each.upper(): await _method(each.upper(), listener, own, ground) for each in names}
    if not methods:
        raise ConfigError(
            "a listener with logins needs a mechanism", setting=sasl.sasl_enabled_mechanisms.name
        )
    return LoginTerms(
        methods,
        failure_delay_ms=settings[connection_failed_authentication_delay_ms],
        receive_bytes_max=own[sasl.sasl_server_max_receive_size],
    )


async def _method(name: str, listener: Listener, own: Settings, ground: SecurityGround) -> Method:
    if name not in MECHANISMS:
        raise ConfigError(
            "this mechanism is not offered here",
            setting=sasl.sasl_enabled_mechanisms.name,
            value=name,
            allowed=MECHANISMS,
        )
    lifetime_ms = _lifetime_ms(own, listener.name, name)
    if name == PLAIN:
        module = _module(own, listener.name, PLAIN)
        passwords = users_of(module.options)
        return Method(lambda: PlainServer(passwords), lifetime_ms)
    if name == OAUTHBEARER:
        return await _by_token(_of_tokens(own, listener.name), lifetime_ms, ground)
    if name == GSSAPI:
        module = _module(own, listener.name, GSSAPI)
        setting = _jaas_name(listener.name, GSSAPI)
        begin_kerberos = await ground.runtime.run_blocking(kerberos_logins, own, module, setting)
        return Method(begin_kerberos, lifetime_ms, in_a_thread(ground.runtime, "kerberos-login"))
    mechanism = SCRAM_MECHANISMS[name]

    def begin() -> ScramServer:
        nonce = f"{ground.runtime.random.getrandbits(_NONCE_BITS):x}"
        return ScramServer(
            mechanism,
            lambda user: ground.credentials().scram(user, mechanism),
            nonce,
            ground.secret,
            lambda token_id: ground.find_token(token_id, mechanism),
        )

    return Method(begin, lifetime_ms)


def _lifetime_ms(own: Settings, listener: str, mechanism: str) -> int:
    """Return how long a login with a mechanism counts; 0 for no limit. Raise ConfigError."""
    row = security.connections_max_reauth_ms
    text = _of_mechanism(own, mechanism, row.name)
    if text is None:
        return own[row]
    try:
        lifetime_ms: int = row.kind.read(text.strip())
    except ValueError as error:
        raise ConfigError(
            "this value is not allowed",
            setting=_own_name(listener, mechanism, row.name),
            value=text,
            allowed=row.kind.allowed,
        ) from error
    return lifetime_ms


def _of_tokens(own: Settings, listener: str) -> Settings:
    """Return the settings of a listener, in which those of OAUTHBEARER count first."""
    return own.with_prefix(own_prefix(listener, OAUTHBEARER))


async def _by_token(own: Settings, lifetime_ms: int, ground: SecurityGround) -> Method:
    """Return the logins with tokens. Without keys, an issuer or an audience the listener does not
    open, unless a setting says that issuer or audience are not checked, as in Kafka 4.4."""
    issuer = own[oauth.sasl_oauthbearer_expected_issuer] or None
    audiences = own[oauth.sasl_oauthbearer_expected_audience] or None
    location = own[oauth.sasl_oauthbearer_jwks_endpoint_url] or _known_location(own) or ""
    is_any_issuer = own[oauth.sasl_oauthbearer_allow_unverified_issuer]
    is_any_audience = own[oauth.sasl_oauthbearer_allow_unverified_audience]
    for row, value, is_optional in (
        (oauth.sasl_oauthbearer_expected_issuer, issuer, is_any_issuer),
        (oauth.sasl_oauthbearer_expected_audience, audiences, is_any_audience),
        (oauth.sasl_oauthbearer_jwks_endpoint_url, location, False),
    ):
        if value:
            continue
        if not is_optional:
            raise ConfigError(
                "OAUTHBEARER needs it: without it no token could be checked", setting=row.name
            )
        ground.log.warn("lets in tokens with any value of it: insecure", setting=row.name)
    terms = TokenTerms(
        issuer,
        None if audiences is None else tuple(audiences),
        own[oauth.sasl_oauthbearer_sub_claim_name],
        own[oauth.sasl_oauthbearer_clock_skew_seconds],
    )
    runtime = ground.runtime
    keys = await _keys_at(location, own, ground)
    check = TokenCheck(terms, keys, lambda: runtime.clock.wall_ms() / 1000)
    away = in_a_thread(runtime, "token-login") if isinstance(keys, KeyFile) else None
    return Method(lambda: OAuthServer(check), lifetime_ms, away)


async def _keys_at(location: str, own: Settings, ground: SecurityGround) -> KeyFile | KeyUrl:
    setting = oauth.sasl_oauthbearer_jwks_endpoint_url.name
    runtime, log = ground.runtime, ground.log
    if location.startswith(_FILE):
        path = location.removeprefix(_FILE)
        return await runtime.run_blocking(KeyFile, path, runtime.clock, log, setting)
    fault = check_url(location)
    if fault is not None:
        raise ConfigError(
            f"{fault}, or a file: file:///path/of/jwks.json",
            setting=setting,
            value=shown_url(location),
        )
    timing = KeyTiming(
        own[oauth.sasl_oauthbearer_jwks_endpoint_refresh_ms] / 1000,
        Backoff(
            own[oauth.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms],
            own[oauth.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms],
        ),
    )
    keys = KeyUrl(location, timing, runtime, log)
    await keys.first()
    return keys


def _known_location(own: Settings) -> str | None:
    """Return where a known provider publishes the keys of its issuer."""
    provider, issuer = own[oauth.moldau_oauth_provider], own[oauth.sasl_oauthbearer_expected_issuer]
    if not provider or not issuer:
        return None
    if provider.lower() == "keycloak":
        return f"{issuer.rstrip('/')}/protocol/openid-connect/certs"
    return f"{issuer.rstrip('/').removesuffix('/v2.0')}/discovery/v2.0/keys"


def _of_mechanism(own: Settings, mechanism: str, name: str) -> str | None:
    """Return the text of a setting of one mechanism of a listener."""
    given = own.others.get(f"{mechanism.lower()}.{name}")
    return given.value if given is not None and isinstance(given.value, str) else None


def _jaas(own: Settings, mechanism: str) -> Secret | None:
    text = _of_mechanism(own, mechanism, sasl.sasl_jaas_config.name)
    return own[sasl.sasl_jaas_config] if text is None else Secret(text)


def _own_name(listener: str, mechanism: str, name: str) -> str:
    return f"{own_prefix(listener, mechanism)}{name}"


def _jaas_name(listener: str, mechanism: str) -> str:
    return _own_name(listener, mechanism, sasl.sasl_jaas_config.name)


def _module(own: Settings, listener: str, mechanism: str) -> LoginModule:
    name = _jaas_name(listener, mechanism)
    text = _jaas(own, mechanism)
    if text is None:
        missing = "the key table is" if mechanism == GSSAPI else "users and passwords are"
        raise ConfigError(f"{missing} missing", setting=name)
    return parse_jaas(text.reveal(), name)


# Connections to other nodes


def outgoing(
    settings: Settings, listener: str, protocol: str, mechanism: str, runtime: Runtime
) -> Security | None:
    """Return the security of connections to a listener of other nodes. Raise ConfigError."""
    if protocol == "PLAINTEXT":
        return None
    own = own_settings(settings, listener)
    context = None
    if protocol.endswith("SSL"):
        terms = tls_files(own)
        context = ReloadedContext(partial(client_context, terms), terms, runtime.clock)
    credentials: OwnCredentials | None = None
    if protocol.startswith("SASL"):
        service = own[sasl.sasl_kerberos_service_name]
        is_oauth = mechanism.upper() == OAUTHBEARER
        tokens = _own_tokens(own, listener, runtime) if is_oauth else None
        text = _own_login(own, listener, mechanism)
        credentials = credentials_from(mechanism, text, service=service, tokens=tokens)
    return Security(context, credentials)


def _own_login(own: Settings, listener: str, mechanism: str) -> Secret | None:
    """Return the login module that this node logs in with. Raise ConfigError that names the
    setting of the listener."""
    wanted = mechanism.upper()
    if wanted not in MECHANISMS:
        raise ConfigError(
            "nodes cannot log in at each other by this mechanism",
            listener=listener,
            value=mechanism,
            allowed=MECHANISMS,
        )
    text = _jaas(own, mechanism)
    if wanted in (OAUTHBEARER, GSSAPI):
        return text
    name = _jaas_name(listener, mechanism)
    module = None if text is None else parse_jaas(text.reveal(), name)
    if module is None or not {"username", "password"} <= module.options.keys():
        raise ConfigError(
            "nodes that log in at each other need a user and a password: give a login module with "
            'username="..." and password="..."',
            setting=name,
        )
    if not wanted.startswith(module.family):
        raise ConfigError(f"its login module is one of {module.family}", setting=name)
    return text


def _own_tokens(own: Settings, listener: str, runtime: Runtime) -> EndpointTokens:
    """Return where this node gets its tokens: as a client with its settings. Raise ConfigError."""
    row = token_settings.sasl_oauthbearer_token_endpoint_url
    if not _of_tokens(own, listener)[row]:
        raise ConfigError("connections to other nodes by OAUTHBEARER need it", setting=row.name)
    asked: dict[str, str | tuple[str, ...] | None] = {**_token_client(own, listener)}
    return EndpointTokens(endpoint_of(_CLIENT.resolve(overrides(asked))), runtime, "")


def _token_client(own: Settings, listener: str) -> dict[str, str]:
    """Return the settings of a client that gets its tokens as this node does. What Kafka's settings
    do not say may be in the login module, as in older versions of Kafka; so is the encryption of
    the endpoint, as in Kafka."""
    found = _given_of(_of_tokens(own, listener), token_settings.TOKEN_ROWS)
    jaas = _token_module(own, listener)
    if jaas is not None:
        found[rows.sasl_jaas_config.name] = jaas
    return {**found, oauth_settings.sasl_oauthbearer_header_urlencode.name: "true"}


def _token_module(own: Settings, listener: str) -> str | None:
    """Return the login module that says how this node gets its tokens. A node starts with what its
    file has for Kafka: a module of another mechanism that is for all of them is not meant, and
    options without a meaning here are passed over. Raise ConfigError."""
    text = _jaas(own, OAUTHBEARER)
    if text is None:
        return None
    is_for_all = _of_mechanism(own, OAUTHBEARER, sasl.sasl_jaas_config.name) is None
    name = sasl.sasl_jaas_config.name if is_for_all else _jaas_name(listener, OAUTHBEARER)
    module = parse_jaas(text.reveal(), name)
    if module.family != OAUTHBEARER and is_for_all:
        return None
    kept = {each: value for each, value in module.options.items() if has_meaning(each)}
    return text.reveal() if kept == module.options else write_jaas(replace(module, options=kept))


def to_controllers(settings: Settings, runtime: Runtime) -> Security | None:
    """Return the security of connections to controllers: that of their first listener."""
    listeners = read_listeners(settings)
    if not listeners.controller_names:
        return None
    name = listeners.controller_names[0]
    protocol = listeners.security_protocols.get(name, "PLAINTEXT")
    mechanism = settings[sasl.sasl_mechanism_controller_protocol]
    return outgoing(settings, name, protocol, mechanism, runtime)


def to_brokers(settings: Settings, runtime: Runtime) -> Security | None:
    """Return the security of connections to the listener between brokers."""
    listeners = read_listeners(settings)
    mechanism = settings[sasl.sasl_mechanism_inter_broker_protocol]
    name, protocol = listeners.inter_broker, listeners.inter_broker_protocol
    return outgoing(settings, name, protocol, mechanism, runtime)


def own_client(settings: Settings, address: str) -> dict[str, str]:
    """Return the settings of a client at `address`, the listener between brokers, that logs in as
    they do. Raise ConfigError."""
    listeners = read_listeners(settings)
    protocol = listeners.inter_broker_protocol
    found = {rows.security_protocol.name: protocol, "bootstrap.servers": address}
    own = own_settings(settings, listeners.inter_broker)
    if protocol.endswith("SSL"):
        found.update(_given_of(own, (each for each in _CLIENT if each.name.startswith("ssl."))))
    if protocol.startswith("SASL"):
        mechanism = settings[sasl.sasl_mechanism_inter_broker_protocol]
        found[rows.sasl_mechanism.name] = mechanism
        jaas, service = _jaas(own, mechanism), own[sasl.sasl_kerberos_service_name]
        if mechanism.upper() == OAUTHBEARER:
            found.update(_token_client(own, listeners.inter_broker))
        elif jaas is not None:
            found[rows.sasl_jaas_config.name] = jaas.reveal()
        if service is not None:
            found[rows.sasl_kerberos_service_name.name] = service
    return found


def _given_of(own: Settings, wanted: Iterable[Row]) -> dict[str, str]:
    """Return the given settings among those of a client's rows."""
    known = (own.table.find(each.name) for each in wanted)
    return {
        row.name: _text(row, own[row]) for row in known if row is not None and own.is_given(row)
    }


def _text(row: Row, value: object) -> str:
    """Return a value as it stands in a file of settings, secrets too."""
    return value.reveal() if isinstance(value, Secret) else row.write(value) or ""
