"""The TLS of a registry's https addresses, from the settings."""

from __future__ import annotations

import ssl

from moldau.client.settings import serdes as rows
from moldau.config import Settings
from moldau.errors import ConfigError


def tls_context(settings: Settings) -> ssl.SSLContext:
    """Return the TLS context. Raise ConfigError with the setting of a file that cannot be used."""
    truststore = settings[rows.tls_truststore]
    try:
        context = ssl.create_default_context(cafile=truststore)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"the file cannot be used: {error}", setting=rows.tls_truststore.name, path=truststore
        ) from error
    context.check_hostname = bool(settings[rows.tls_identification])
    keystore, password = settings[rows.tls_keystore], settings[rows.tls_key_password]
    if keystore is not None:
        try:
            # Without a password OpenSSL would ask at the terminal: an empty one fails instead.
            context.load_cert_chain(keystore, password=password.reveal() if password else "")
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"the file cannot be used: {error}", setting=rows.tls_keystore.name, path=keystore
            ) from error
    return context
