"""The console inside a broker's process. The rows about its visitors have the names of the options
of `moldau console`: `--oidc-issuer` is `moldau.console.oidc.issuer`.
"""

from __future__ import annotations

from moldau.config import BOOLEAN, HTTP_URL, LIST, STRING, Check, Setting, list_of, one_of


def _is_named_url(text: str) -> bool:
    name, _, url = text.partition("=")
    return bool(name) and not set(name) & set("/ ") and HTTP_URL.holds(url)


_NAMED_URLS = list_of(item=Check("NAME=http://HOST:PORT, the name without a slash", _is_named_url))

# fmt: off
moldau_console_listener = Setting("moldau.console.listener", STRING, None,
    doc="HOST:PORT where the broker's process serves the console of its cluster; also `--console`. "
    "Kafka has no such setting.")
moldau_console_admin = Setting("moldau.console.admin", BOOLEAN, False,
    doc="Whether visitors of `moldau.console.listener` may change the cluster where no role says "
    "so; if not, its pages are read-only. Kafka has no such setting.")
moldau_console_http_config = Setting("moldau.console.http.config", STRING, None,
    doc="A file of settings that protect `moldau.console.listener`, as that of "
    "`moldau.metrics.http.config`. Kafka has no such setting.")
moldau_console_oidc_issuer = Setting("moldau.console.oidc.issuer", STRING, None,
    doc="The URL of the OpenID Connect provider that visitors of `moldau.console.listener` log in "
    "at. It needs the extra `oauth`. Kafka has no such setting.")
moldau_console_oidc_client_id = Setting("moldau.console.oidc.client.id", STRING, None,
    doc="The console's id at `moldau.console.oidc.issuer`. Kafka has no such setting.")
moldau_console_oidc_client_secret_file = Setting(
    "moldau.console.oidc.client.secret.file", STRING, None,
    doc="A file with the console's secret at `moldau.console.oidc.issuer`; without it the console "
    "has none there. Kafka has no such setting.")
moldau_console_oidc_roles_claim = Setting("moldau.console.oidc.roles.claim", STRING, None,
    doc="The claim of the ID token that has the visitor's groups; without it `groups`. Kafka has "
    "no such setting.")
moldau_console_oidc_user_claim = Setting("moldau.console.oidc.user.claim", STRING, None,
    doc="The claim of the ID token that names the visitor, such as `email`; without it `sub`. "
    "Kafka has no such setting.")
moldau_console_oidc_redirect_uri = Setting("moldau.console.oidc.redirect.uri", STRING, None,
    doc="The address to which the provider sends browsers back, if a proxy hides it; without it "
    "`/login/done` at the address that the browser asked. Kafka has no such setting.")
moldau_console_roles = Setting("moldau.console.roles", STRING, None,
    doc="A YAML file with the roles of visitors of `moldau.console.listener`, of which topics they "
    "see messages, and what is masked in messages. Kafka has no such setting.")
moldau_console_audit = Setting("moldau.console.audit", STRING, None,
    doc="A file that gets a line of JSON for each change, and each look at messages, in the "
    "console; without it the lines are in the broker's log. Kafka has no such setting.")
moldau_console_registry = Setting(
    "moldau.console.registry", STRING, None, check=HTTP_URL, secret=True,
    doc="The URL of the Schema Registry that the console inside the broker decodes records by and "
    "shows; without it that of `moldau.registry.listener`, if that asks for no login. Kafka has no "
    "such setting.")
moldau_console_data_contract_rules = Setting(
    "moldau.console.data.contract.rules", STRING, None, check=one_of("refuse", "ignore"),
    doc="`ignore` lets the console inside the broker decode and write by schemas with rules (a "
    "data contract) that are not run there; without it, or with `refuse`, it does not. Kafka has "
    "no such setting.")
moldau_console_connect = Setting(
    "moldau.console.connect", STRING, None, check=HTTP_URL, secret=True,
    doc="The URL of the Connect worker that the console inside the broker shows. Kafka has no such "
    "setting.")
moldau_console_streams = Setting(
    "moldau.console.streams", LIST, None, check=_NAMED_URLS, secret=True,
    doc="The Streams apps that the console inside the broker shows: NAME=URL, several separated by "
    "commas. Kafka has no such setting.")
moldau_console_pipeline = Setting(
    "moldau.console.pipeline", LIST, None, check=_NAMED_URLS, secret=True,
    doc="The pipelines that the console inside the broker shows: NAME=URL, several separated by "
    "commas. Kafka has no such setting.")
moldau_console_prometheus = Setting(
    "moldau.console.prometheus", STRING, None, check=HTTP_URL, secret=True,
    doc="The URL of the Prometheus from which the console inside the broker draws ranges longer "
    "than 15 minutes. Kafka has no such setting.")
