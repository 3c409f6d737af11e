"""Which places of tokens a connector's config may name: URLs that are asked, files that are read.

A client that logs in by OAUTHBEARER asks a URL for a token, and may read an assertion or a key from
a file. A connector's config comes over the REST API, so its author could make the worker ask inner
addresses and read files of its machine (CVE-2025-27817). Such a setting of a connector's clients,
by whatever prefix, must be in the worker's list, which is empty without the setting, as in Kafka.

Invariants: the worker's own settings are free, since they are a file of its operator. Configs are
judged with their references resolved. What still looks like a reference then is text, and no more
allowed than any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from moldau.connect.task.settings import Config, listed
from moldau.errors import ConfigError
from moldau.link.login.oauth_settings import OIDC_PROVIDERS, oauth, sasl_oauthbearer_expected_issuer
from moldau.link.login.token_endpoint import known_url, shown_url
from moldau.link.login.token_settings import (
    sasl_oauthbearer_assertion_file,
    sasl_oauthbearer_assertion_private_key_file,
    sasl_oauthbearer_assertion_template_file,
    sasl_oauthbearer_token_endpoint_url,
)

ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
ALLOWED_FILES: Final = "org.apache.kafka.sasl.oauthbearer.allowed.files"
_URL: Final = sasl_oauthbearer_token_endpoint_url.name
_ISSUER: Final = sasl_oauthbearer_expected_issuer.name
_FILES: Final = (
    sasl_oauthbearer_assertion_file.name,
    sasl_oauthbearer_assertion_private_key_file.name,
    sasl_oauthbearer_assertion_template_file.name,
)


def refused_places(config: Config, worker: Config) -> dict[str, str]:
    """Return the keys of the connector's resolved config that name a place which the worker does
    not allow, each with the reason."""
    allowed = {each: listed(worker, each) for each in (ALLOWED_URLS, ALLOWED_FILES)}
    found: dict[str, str] = {}
    for name, setting, place in _places(config, worker):
        if place not in allowed[setting]:
            shown = shown_url(place) if setting == ALLOWED_URLS else "this file"
            found[name] = f"The worker's {setting} does not name {shown}"
    return found


def allowing(configs: Iterable[Config], worker: Config) -> dict[str, str]:
    """Return the worker's lists with the places that these resolved configs name. They are for a
    program that runs the connectors of its own file in a worker without a REST API."""
    found = {each: listed(worker, each) for each in (ALLOWED_URLS, ALLOWED_FILES)}
    for config in configs:
        for _, setting, place in _places(config, worker):
            found[setting].append(place)
    return {setting: ",".join(dict.fromkeys(places)) for setting, places in found.items() if places}


def _places(config: Config, worker: Config) -> Iterator[tuple[str, str, str]]:
    """Yield the keys that name places, each with the list that must have a place, and that."""
    for name, given in config.items():
        value = given.strip()
        if not value:
            continue
        if _is(name, _URL):
            yield name, ALLOWED_URLS, value
        elif _is(name, _ISSUER):
            for url in _endpoints(value, {**worker, **config}):
                yield name, ALLOWED_URLS, url
        elif any(_is(name, each) for each in _FILES):
            yield name, ALLOWED_FILES, value


def check_places(config: Config, worker: Config) -> None:
    """Check a resolved config before a client is made of it. Raise ConfigError."""
    for name, reason in refused_places(config, worker).items():
        raise ConfigError(reason, setting=name)


def _is(name: str, setting: str) -> bool:
    """Whether a key of a connector is this setting of a client: `producer.override.SETTING`."""
    return name == setting or name.endswith(f".{setting}")


def _endpoints(issuer: str, known: Config) -> Iterator[str]:
    """Yield the token endpoints that follow from an issuer, by each known provider that a setting
    of a client names; none without one."""
    named = {value.strip().lower() for name, value in known.items() if _is(name, oauth.name)}
    return (known_url(each, issuer) for each in OIDC_PROVIDERS if each in named)
