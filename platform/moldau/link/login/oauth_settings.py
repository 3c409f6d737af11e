"""The settings of a client's OAuth tokens, by Kafka's names: one row each. Those of the request for
a token, which nodes have too, are in `moldau.link.login.token_settings`."""

from __future__ import annotations

from typing import Final

from moldau.config import BOOLEAN, CLASS, DOUBLE, LIST, STRING, Setting, between, list_of, rows_in
from moldau.link.login.token_settings import PACKAGE, TOKEN_ROWS

MSK_IAM: Final = "msk-iam"
KEYCLOAK: Final = "keycloak"
ENTRA: Final = "entra"
OIDC_PROVIDERS: Final = (KEYCLOAK, ENTRA)
"""The values of `oauth` for which the token endpoint follows from the issuer."""
CALLBACKS: Final = (
    f"{PACKAGE}OAuthBearerLoginCallbackHandler",
    f"{PACKAGE}secured.OAuthBearerLoginCallbackHandler",
)
"""The values of `sasl.login.callback.handler.class` that ask for what a client does here anyway."""

# fmt: off
oauth = Setting("oauth", STRING, None,
    doc="Where the tokens of OAUTHBEARER come from: `keycloak` or `entra`, each with the token "
    "endpoint that follows from sasl.oauthbearer.expected.issuer, or `msk-iam`, which signs them "
    "with the keys of AWS; in Python also an async function that returns a token, a "
    "`TokenEndpoint` or an `MskIam`. Without it they come from "
    "sasl.oauthbearer.token.endpoint.url.")
sasl_oauthbearer_expected_issuer = Setting("sasl.oauthbearer.expected.issuer", STRING, None,
    doc="With oauth=keycloak or entra: the issuer of tokens. Its token endpoint is asked. "
    "Otherwise it has no effect on a client: brokers check tokens.")
sasl_oauthbearer_extensions = Setting("sasl.oauthbearer.extensions", LIST, (), check=list_of(),
    doc="What is sent beside the token, name=value; or extension_NAME= in sasl.jaas.config. A name "
    "of librdkafka.")
sasl_oauthbearer_header_urlencode = Setting("sasl.oauthbearer.header.urlencode", BOOLEAN, False,
    doc="Whether the id and the secret are encoded as for URLs in the header, as RFC 6749 wants "
    "it. With oauth=keycloak and entra they are.")
sasl_login_callback_handler_class = Setting("sasl.login.callback.handler.class", CLASS, None,
    doc="Java's OAuthBearerLoginCallbackHandler, which configs of Java's clients have beside a "
    "token endpoint. Another class has no effect.")
sasl_login_refresh_window_factor = Setting(
    "sasl.login.refresh.window.factor", DOUBLE, 0.8, check=between(0.5, 1.0),
    doc="The part of a token's life after which logins ask for a new one.")
# fmt: on

OAUTH_ROWS: Final = (*rows_in(globals()), *TOKEN_ROWS)
