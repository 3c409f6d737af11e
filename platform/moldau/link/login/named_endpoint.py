"""The token endpoint that the settings of a client name, by Kafka's names.

What is in `sasl.jaas.config` counts where the settings of today's Kafka say nothing: `clientId`,
`clientSecret`, `scope`, `extension_NAME`, and `ssl.*` for the encryption of the endpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from moldau.config import Secret, SettingTable, overrides
from moldau.errors import ConfigError
from moldau.link.login import oauth_settings as rows
from moldau.link.login import token_settings as asking
from moldau.link.login.assertions import Assertion
from moldau.link.login.jaas import parse_jaas
from moldau.link.login.token_endpoint import TokenEndpoint, TokenTiming
from moldau.link.security_settings import (
    OAUTHBEARER,
    SECURITY_ROWS,
    WITHOUT_EFFECT,
    sasl_jaas_config,
)
from moldau.link.tls import TlsFiles, tls_files
from moldau.runtime.backoff import Backoff

if TYPE_CHECKING:
    from moldau.config import Settings

_EXTENSION: Final = "extension_"
_OPTIONS: Final = ("clientId", "clientSecret", "scope")


def endpoint_of(settings: Settings) -> TokenEndpoint:
    """Return the endpoint. Raise ConfigError that says what is missing."""
    jaas = _jaas_options(settings)
    secret = settings[asking.sasl_oauthbearer_client_credentials_client_secret]
    if secret is None and "clientSecret" in jaas:
        secret = Secret(jaas["clientSecret"])
    fields: dict[str, Any] = {
        "client_id": settings[asking.sasl_oauthbearer_client_credentials_client_id]
        or jaas.get("clientId"),
        "client_secret": secret,
        "scope": settings[asking.sasl_oauthbearer_scope] or jaas.get("scope"),
        "extensions": _extensions(settings, jaas),
        "assertion": _assertion(settings),
        "is_grant": settings[asking.sasl_oauthbearer_jwt_retriever_class] == asking.JWT_BEARER,
        "tls": _tls(jaas),
        "timing": _timing(settings),
    }
    if settings[rows.sasl_oauthbearer_header_urlencode]:
        fields["encodes_header"] = True
    url = settings[asking.sasl_oauthbearer_token_endpoint_url]
    provider = (settings[rows.oauth] or "").lower()
    if url:
        is_entra = provider == rows.ENTRA
        return TokenEndpoint(url, **{"encodes_header": bool(provider), **fields}, is_entra=is_entra)
    issuer = settings[rows.sasl_oauthbearer_expected_issuer]
    if not provider:
        raise ConfigError(
            "it says where tokens are asked for with the client's id and secret: give it, or "
            f"{rows.oauth.name}={' or '.join(rows.OIDC_PROVIDERS)}",
            setting=asking.sasl_oauthbearer_token_endpoint_url.name,
        )
    if not issuer:
        raise ConfigError(
            f"its token endpoint follows from the issuer: give "
            f"{rows.sasl_oauthbearer_expected_issuer.name}, or "
            f"{asking.sasl_oauthbearer_token_endpoint_url.name}",
            setting=rows.oauth.name,
            value=provider,
        )
    if provider == rows.KEYCLOAK:
        return TokenEndpoint.of_keycloak(issuer, **fields)
    return TokenEndpoint.of_entra(issuer, **fields)


def _jaas_options(settings: Settings) -> Mapping[str, str]:
    """Return the options of `sasl.jaas.config`; each has a meaning, or is refused."""
    text = settings[sasl_jaas_config]
    if text is None:
        return {}
    module = parse_jaas(text.reveal())
    if module.family != OAUTHBEARER:
        raise ConfigError(
            f"its login module is one of {module.family}, and sasl.mechanism is {OAUTHBEARER}",
            setting=sasl_jaas_config.name,
        )
    strange = [name for name in module.options if not has_meaning(name)]
    if strange:
        raise ConfigError(
            f"it has options without a meaning here: {', '.join(strange)}; give clientId=, "
            "clientSecret=, scope=, extension_NAME=, or ssl.*=",
            setting=sasl_jaas_config.name,
        )
    return module.options


def has_meaning(option: str) -> bool:
    """Whether an option of the login module has a meaning here."""
    return option in _OPTIONS or option.startswith((_EXTENSION, "ssl."))


def _extensions(settings: Settings, jaas: Mapping[str, str]) -> dict[str, str]:
    found = {
        name.removeprefix(_EXTENSION): value
        for name, value in jaas.items()
        if name.startswith(_EXTENSION)
    }
    for text in settings[rows.sasl_oauthbearer_extensions]:
        name, mark, value = text.partition("=")
        if not mark:
            raise ConfigError(
                "an extension is name=value", setting=rows.sasl_oauthbearer_extensions.name
            )
        found[name.strip()] = value
    return found


def _assertion(settings: Settings) -> Assertion | None:
    """Return how assertions are made; None if a secret is shown. As in Java, an issuer or a file
    asks for one, and the grant jwt-bearer."""
    names = {
        "iss": settings[asking.sasl_oauthbearer_assertion_claim_iss],
        "sub": settings[asking.sasl_oauthbearer_assertion_claim_sub],
        "aud": settings[asking.sasl_oauthbearer_assertion_claim_aud],
    }
    file = settings[asking.sasl_oauthbearer_assertion_file]
    is_grant = settings[asking.sasl_oauthbearer_jwt_retriever_class] == asking.JWT_BEARER
    key_file = settings[asking.sasl_oauthbearer_assertion_private_key_file]
    if not (file or names["iss"] or key_file or is_grant):
        return None
    return Assertion(
        file=file,
        key_file=key_file,
        passphrase=settings[asking.sasl_oauthbearer_assertion_private_key_passphrase],
        template_file=settings[asking.sasl_oauthbearer_assertion_template_file],
        algorithm=settings[asking.sasl_oauthbearer_assertion_algorithm].upper(),
        claims=tuple((name, value) for name, value in names.items() if value),
        expires_s=settings[asking.sasl_oauthbearer_assertion_claim_exp_seconds],
        begins_s=settings[asking.sasl_oauthbearer_assertion_claim_nbf_seconds],
        has_id=settings[asking.sasl_oauthbearer_assertion_claim_jti_include],
    )


def _tls(jaas: Mapping[str, str]) -> TlsFiles | None:
    """Return the encryption of the endpoint: the `ssl.*` options of the login module, as in Java.
    Those of the client are for brokers."""
    given: dict[str, str | tuple[str, ...] | None] = {
        name: value
        for name, value in jaas.items()
        if name.startswith("ssl.") and not name.startswith(tuple(WITHOUT_EFFECT))
    }
    if not given:
        return None
    table = SettingTable(each for each in SECURITY_ROWS if each.name.startswith("ssl."))
    return tls_files(table.resolve(overrides(given)))


def _timing(settings: Settings) -> TokenTiming:
    usual = TokenTiming()
    connect_ms = settings[asking.sasl_login_connect_timeout_ms]
    read_ms = settings[asking.sasl_login_read_timeout_ms]
    return TokenTiming(
        usual.connect_s if connect_ms is None else connect_ms / 1000,
        usual.read_s if read_ms is None else read_ms / 1000,
        Backoff(
            settings[asking.sasl_login_retry_backoff_ms],
            settings[asking.sasl_login_retry_backoff_max_ms],
        ),
        settings[rows.sasl_login_refresh_window_factor],
    )
