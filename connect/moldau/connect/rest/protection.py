"""How a worker's REST API is protected, from Java's settings and from ours.

Java's: `listeners=https://...` with `ssl.*` (or `listeners.https.ssl.*`, which then count alone),
and `rest.extension.classes` with the basic authentication that Kafka brings: its login module is in
the section `KafkaConnect` of the JAAS file that `java.security.auth.login.config` names, as a
setting of the worker or in KAFKA_OPTS. Ours: `moldau.rest.http.config`, a file of the settings in
`moldau.link.http.protection`.

Invariant: requests between workers that are signed with the session key need no login, as in Java.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.config import GivenValue, Source, SourceKind
from moldau.connect.task.settings import beneath, listed
from moldau.errors import ConfigError
from moldau.link.http.protection import (
    TABLE,
    HttpProtection,
    load_protection,
    protection_of,
    users_in,
)
from moldau.link.login.jaas import jaas_section
from moldau.link.tls import client_context, tls_files
from moldau.runtime.places import absolute_path
from moldau.runtime.real_files import RealFiles

if TYPE_CHECKING:
    from moldau.runtime import Clock

EXTENSIONS: Final = "rest.extension.classes"
EXTENSION: Final = (
    "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
)
JAAS_FILE: Final = "java.security.auth.login.config"
OWN: Final = "moldau.rest.http.config"
_SECTION: Final = "KafkaConnect"
_MODULE: Final = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
_HTTPS: Final = "listeners.https."
_SIGNED: Final = re.compile(r"/connectors/[^/]+/(tasks|fence)/?")


def rest_protection(
    settings: Mapping[str, str], clock: Clock, listeners: str = "listeners"
) -> HttpProtection:
    """Return the protection of the worker's REST API. Raise ConfigError if it is not whole."""
    path = settings.get(OWN, "").strip()
    found = HttpProtection() if not path else load_protection(path, clock)
    is_https = settings.get(listeners, "").strip().lower().startswith("https:")
    if is_https and found.context is None:
        tls = protection_of(_tls_settings(settings), clock)
        if tls.context is None:
            raise ConfigError(
                "https needs a key and a certificate: give ssl.keystore.location",
                setting=listeners,
            )
        found = replace(found, context=tls.context, asks_certificate=tls.asks_certificate)
    for name in listed(settings, EXTENSIONS):
        if name not in (EXTENSION, EXTENSION.rpartition(".")[2]):
            raise ConfigError(
                f"only Kafka's own extension works here: {EXTENSION}",
                setting=EXTENSIONS,
                value=name,
            )
        found = replace(found, users=_java_users(settings))
    return found


def is_signed(method: str, path: str) -> bool:
    """Whether requests to this path are of other workers, which sign them."""
    found = _SIGNED.fullmatch(path)
    return found is not None and (method, found[1]) in (("POST", "tasks"), ("PUT", "fence"))


def client_verification(settings: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return what a worker's HTTP client checks at other workers: their certificates come from the
    same trust store, and it shows its own. None if the settings name none."""
    given = _tls_settings(settings)
    if not given:
        return None
    return client_context(tls_files(TABLE.resolve(_layer(given))))


def _layer(given: Mapping[str, str]) -> tuple[GivenValue, ...]:
    source = Source(SourceKind.FILE, "the worker")
    return tuple(GivenValue(name, text, source) for name, text in given.items())


def _tls_settings(settings: Mapping[str, str]) -> dict[str, str]:
    own = beneath(settings, _HTTPS)
    given = own if own else settings
    return {name: text for name, text in given.items() if TABLE.find(name) is not None}


def _java_users(settings: Mapping[str, str]) -> dict[str, str]:
    path = settings.get(JAAS_FILE, "").strip()
    if not path:
        raise ConfigError(
            f"{EXTENSIONS} needs the file with the section {_SECTION}: give it here, or in "
            f"KAFKA_OPTS=-D{JAAS_FILE}=FILE",
            setting=JAAS_FILE,
        )
    try:
        text = RealFiles().read_text(absolute_path(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("it cannot be read", setting=JAAS_FILE, path=path) from error
    module, options = jaas_section(text, _SECTION, JAAS_FILE)
    if module != _MODULE:
        raise ConfigError(
            "only the login module that Kafka brings works here",
            setting=JAAS_FILE,
            value=module,
            allowed=[_MODULE],
        )
    if "file" not in options:
        raise ConfigError(f'{_MODULE} needs file="..."', setting=JAAS_FILE)
    return users_in(options["file"], JAAS_FILE)


def jaas_file_of(environment: Mapping[str, str]) -> str | None:
    """Return the JAAS file that KAFKA_OPTS gives to the JVM."""
    found = re.search(rf"-D{re.escape(JAAS_FILE)}=(\S+)", environment.get("KAFKA_OPTS", ""))
    return None if found is None else found[1]
