"""Logins with Kerberos at a listener, from its settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.broker.security.gssapi import Acceptor, GssServer, own_realm
from moldau.broker.security.kerberos_names import KerberosNames, parse_kerberos_rules
from moldau.broker.settings import sasl
from moldau.errors import ConfigError
from moldau.link.login.gss import library
from moldau.link.security import GSSAPI

if TYPE_CHECKING:
    from moldau.config import Settings
    from moldau.link.login.jaas import LoginModule


def kerberos_logins(own: Settings, module: LoginModule, setting: str) -> Callable[[], GssServer]:
    """Return what begins a login. `module` is what `setting` says. Raise ConfigError for a key
    table that cannot be used, and for rules that are none."""
    library()
    if module.family != GSSAPI:
        raise ConfigError(f"its login module is one of {module.family}", setting=setting)
    options = {name.lower(): value for name, value in module.options.items()}
    keytab = options.get("keytab")
    if not keytab:
        raise ConfigError(
            'it names no key table: add useKeyTab=true keyTab="/etc/moldau/broker.keytab" and '
            'principal="kafka/HOST@REALM"',
            setting=setting,
        )
    rules = parse_kerberos_rules(own[sasl.sasl_kerberos_principal_to_local_rules])
    try:
        acceptor = Acceptor(keytab, options.get("principal"))
    except ConfigError as error:
        error.context = {**error.context, "setting": setting}
        raise
    names = KerberosNames(rules, own_realm())
    return lambda: GssServer(acceptor, names)
