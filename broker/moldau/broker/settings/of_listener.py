"""Settings of one listener: the names below `listener.name.<listener>.`.

Below it stand the rows of `ROWS`; those of logins also below a mechanism, as in
`listener.name.sasl_ssl.plain.sasl.jaas.config`. The table of settings accepts all names with this
prefix, as Kafka does. So here is what says that a name is misspelled, or has no effect.

Listeners and mechanisms are written in lower case there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from moldau.broker.settings import network, oauth, sasl, security, tls
from moldau.broker.settings.listener import read_listeners
from moldau.config import GivenValue, Settings, SettingTable
from moldau.config.table import Row
from moldau.deferred import dataclass
from moldau.link.login import token_settings
from moldau.protocol.scram import SCRAM_MECHANISMS

LISTENER_PREFIX: Final = "listener.name."
OAUTHBEARER: Final = "oauthbearer"
_MECHANISMS: Final = frozenset(
    ("plain", OAUTHBEARER, "gssapi", *(each.lower() for each in SCRAM_MECHANISMS))
)

ROWS: Final[frozenset[Row]] = frozenset(
    (
        network.max_connection_creation_rate,
        network.max_connections,
        network.socket_listen_backlog_size,
        network.socket_receive_buffer_bytes,
        network.socket_request_max_bytes,
        network.socket_send_buffer_bytes,
        security.connections_max_reauth_ms,
        sasl.sasl_enabled_mechanisms,
        sasl.sasl_jaas_config,
        sasl.sasl_kerberos_principal_to_local_rules,
        sasl.sasl_kerberos_service_name,
        sasl.sasl_server_max_receive_size,
        tls.ssl_cipher_suites,
        tls.ssl_client_auth,
        tls.ssl_enabled_protocols,
        tls.ssl_endpoint_identification_algorithm,
        tls.ssl_key_password,
        tls.ssl_keystore_certificate_chain,
        tls.ssl_keystore_key,
        tls.ssl_keystore_location,
        tls.ssl_keystore_password,
        tls.ssl_keystore_type,
        tls.ssl_principal_mapping_rules,
        tls.ssl_truststore_certificates,
        tls.ssl_truststore_location,
        tls.ssl_truststore_password,
        tls.ssl_truststore_type,
    )
)
"""The rows that a listener may have of its own, beside those of OAUTHBEARER."""

OAUTH_ROWS: Final[frozenset[Row]] = frozenset(
    (
        *token_settings.TOKEN_ROWS,
        oauth.moldau_oauth_provider,
        oauth.sasl_oauthbearer_allow_unverified_audience,
        oauth.sasl_oauthbearer_allow_unverified_issuer,
        oauth.sasl_oauthbearer_clock_skew_seconds,
        oauth.sasl_oauthbearer_expected_audience,
        oauth.sasl_oauthbearer_expected_issuer,
        oauth.sasl_oauthbearer_jwks_endpoint_refresh_ms,
        oauth.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms,
        oauth.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms,
        oauth.sasl_oauthbearer_jwks_endpoint_url,
        oauth.sasl_oauthbearer_sub_claim_name,
    )
)
"""The rows that a listener may have of its own, and below `oauthbearer.`, too."""

BY_MECHANISM: Final[tuple[Row, ...]] = (
    sasl.sasl_jaas_config,
    sasl.sasl_login_callback_handler_class,
    sasl.sasl_login_class,
    sasl.sasl_server_callback_handler_class,
    security.connections_max_reauth_ms,
)
"""The rows that may stand below any mechanism."""


@dataclass(frozen=True, slots=True)
class OwnName:
    """A name below `listener.name.`, in its parts. An unknown `setting` has no row."""

    listener: str
    mechanism: str | None
    setting: str
    row: Row | None

    @property
    def is_of_listeners(self) -> bool:
        """Whether a listener, or a mechanism of one, can have a value of its own."""
        if self.row in OAUTH_ROWS:
            return self.mechanism is None or self.mechanism.lower() == OAUTHBEARER
        return self.row in (ROWS if self.mechanism is None else BY_MECHANISM)


def own_prefix(listener: str, mechanism: str | None = None) -> str:
    """Return what the names of a listener's own settings begin with, or those of a mechanism of
    it."""
    below = "" if mechanism is None else f"{mechanism.lower()}."
    return f"{LISTENER_PREFIX}{listener.lower()}.{below}"


def own_name(name: str, table: SettingTable, listeners: tuple[str, ...] = ()) -> OwnName | None:
    """Return the parts of a name; None for a name without the prefix. `listeners` are the known
    ones, which may have points in their names."""
    if not name.startswith(LISTENER_PREFIX):
        return None
    rest = name.removeprefix(LISTENER_PREFIX)
    known = [each for each in listeners if rest.lower().startswith(f"{each.lower()}.")]
    listener = rest[: len(max(known, key=len))] if known else rest.partition(".")[0]
    setting = rest[len(listener) + 1 :]
    row = table.find(setting)
    mechanism, _, below = setting.partition(".")
    row_below = table.find(below)
    if row is None and row_below is not None:
        return OwnName(listener, mechanism, below, row_below)
    return OwnName(listener, None, setting, row)


def own_values(settings: Settings) -> Iterator[tuple[str, OwnName, GivenValue]]:
    """Yield each name that is given below the prefix, its parts and its value."""
    names = listener_names(settings)
    for name, given in settings.others.items():
        own = own_name(name, settings.table, names)
        if own is not None:
            yield name, own, given


def listener_names(settings: Settings) -> tuple[str, ...]:
    """Return the listeners that settings of one listener are read for: those of this node, and
    those of other nodes that it connects to."""
    found = read_listeners(settings)
    bound = (each.name for each in found.bound)
    return tuple(dict.fromkeys((*bound, *found.controller_names, found.inter_broker)))


def why_not_there(own: OwnName, names: tuple[str, ...]) -> str | None:
    """Return why a name has no effect whatever its row is; None if that is not so."""
    if own.listener.upper() not in names:
        return f"no listener is called {own.listener} (there are {', '.join(names)})"
    if own.listener != own.listener.lower():
        return f"write {own.listener.lower()} in lower case"
    if own.mechanism is None:
        return None
    if own.mechanism.lower() not in _MECHANISMS:
        return f"no mechanism is called {own.mechanism}"
    if own.mechanism != own.mechanism.lower():
        return f"write {own.mechanism.lower()} in lower case"
    return None


def why_not_own(own: OwnName, table: SettingTable) -> str | None:
    """Return why no listener can have this setting of its own; None if it can."""
    if not own.setting:
        return "it names no setting"
    if own.row is None:
        nearest = table.nearest(own.setting)
        hint = f"; did you mean {nearest}?" if nearest else ""
        return f"{own.setting!r} is no setting of a listener{hint}"
    if own.is_of_listeners:
        return None
    place = "a mechanism" if own.mechanism else "a listener"
    return f"{own.row.name} cannot be set for {place} alone"
