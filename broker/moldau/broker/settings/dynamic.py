"""Broker settings that change while it runs: which may, how changes are checked and applied.

The controller stores dynamic values for all brokers together and for each one. A stored value that
this version does not know or cannot use is left out, so an old change cannot prevent the start of a
cluster (`dynamic_layers`). A broker does not start with values that are valid by themselves but
contradict its other settings, or with a listener whose protocol is not built (`unbuilt`): that is
better than an open listener. `controller.stored_settings` describes how to delete them.
`dynamic_refusals` checks new values before they are stored. `dynamic_notices` reports values that
have no effect, are left out, or need a restart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from moldau.broker.settings import network, node, telemetry, tls
from moldau.broker.settings.meaning import without_effect
from moldau.broker.settings.of_listener import (
    BY_MECHANISM,
    LISTENER_PREFIX,
    own_name,
    why_not_own,
)
from moldau.broker.settings.resource import is_usable
from moldau.broker.settings.tables import BROKER_SETTINGS
from moldau.config import CLASS, LIST, GivenValue, Layer, Source, SourceKind, UpdateMode
from moldau.config.kinds import trim
from moldau.config.table import Row
from moldau.deferred import deferred_pattern

# Key and trust material: each listener has its own, so the plain names cannot change at run time.
ONLY_BY_LISTENER = frozenset(
    (
        tls.ssl_keystore_type,
        tls.ssl_keystore_location,
        tls.ssl_keystore_password,
        tls.ssl_key_password,
        tls.ssl_keystore_certificate_chain,
        tls.ssl_keystore_key,
        tls.ssl_truststore_type,
        tls.ssl_truststore_location,
        tls.ssl_truststore_password,
        tls.ssl_truststore_certificates,
    )
)

_OF_ALL_BROKERS = frozenset(
    (network.max_connections, network.max_connection_creation_rate, network.num_network_threads)
)
_REPORTERS = ("org.apache.kafka.common.metrics.JmxReporter",)
_UNKNOWN_SHOWN = 5
_NO_PLACE = Source(SourceKind.DYNAMIC_BROKER)
_OF_LISTENER = deferred_pattern(r"listener\.name\.[^.]*\.(.*)", re.DOTALL)


def listener_row(name: str) -> Row | None:
    """Return the row of a name such as `listener.name.internal.ssl.keystore.location`, or
    `listener.name.internal.plain.sasl.jaas.config`; None for all other names."""
    found = _OF_LISTENER.fullmatch(name)
    if found is None:
        return None
    by_mechanism = (row for row in BY_MECHANISM if found[1].endswith(row.name))
    return next(by_mechanism, None) or BROKER_SETTINGS.find(found[1])


def dynamic_refusals(changes: Mapping[str, str], *, one_broker: bool) -> tuple[str, ...]:
    """Return the reasons why these new values cannot be set for one broker, or for all; none if
    they can. An unknown name may be a plugin's and is accepted, as in Kafka."""
    found = (_refusal(name, value, one_broker) for name, value in changes.items())
    return tuple(refusal for refusal in found if refusal is not None)


def _refusal(name: str, value: str, one_broker: bool) -> str | None:
    row = BROKER_SETTINGS.find(name)
    if row is not None and row.dynamic is UpdateMode.READ_ONLY:
        return f"{name} cannot change while a broker runs; set it in its file and start it again"
    if row in ONLY_BY_LISTENER:
        return f"{name} can change only for one listener: {LISTENER_PREFIX}<name>.{name}"
    found = _OF_LISTENER.fullmatch(name)
    base = row if found is None else BROKER_SETTINGS.find(found[1])
    given = GivenValue(name, value, _NO_PLACE)
    if base is not None and not is_usable(base, given):
        shown = "the value (hidden)" if base.secret else repr(value)
        return f"{name}: {shown} is not allowed; allowed: {base.allowed}"
    unloadable = _unloadable(listener_row(name) or row, value)
    if unloadable is not None:
        return f"{name}: no class {unloadable!r} can be loaded here"
    if one_broker:
        return None
    is_per_broker = row is not None and row.dynamic is UpdateMode.PER_BROKER
    if is_per_broker or (found is not None and base not in _OF_ALL_BROKERS):
        return f"{name} differs from broker to broker: say which one it is for"
    return None


def _unloadable(row: Row | None, value: str) -> str | None:
    """Return the first class in the value that is not Kafka's default, or None. No class is ever
    loaded here, not even the default."""
    if row is telemetry.metric_reporters:
        return next((each for each in LIST.read(trim(value)) if each not in _REPORTERS), None)
    if row is not None and row.kind is CLASS and trim(value) != row.default:
        return trim(value)
    return None


def dynamic_notices(
    all_brokers: Mapping[str, str], one_broker: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the notices about stored dynamic values that have no effect, or are left out."""
    found = []
    unknown: dict[str, None] = {}
    for values, kind in (
        (all_brokers, SourceKind.DYNAMIC_DEFAULT),
        (one_broker, SourceKind.DYNAMIC_BROKER),
    ):
        for name, value in values.items():
            own = own_name(name, BROKER_SETTINGS)
            row = BROKER_SETTINGS.find(name) if own is None else own.row
            refusal = _refusal(name, value, kind is SourceKind.DYNAMIC_BROKER)
            if refusal is not None:
                found.append(f"{refusal}; what is stored is left out ({kind.label})")
            elif row is None:
                unknown[name] = None
            elif (why := without_effect(row.name)) is not None:
                found.append(f"{name} {why} ({kind.label})")
            elif own is not None and (why := why_not_own(own, BROKER_SETTINGS)) is not None:
                found.append(f"{name} has no effect: {why} ({kind.label})")
            elif row is network.listeners:
                found.append(
                    f"{name}: new ones open at once, and clients are told of them when the broker "
                    f"starts again ({kind.label})"
                )
            elif row is node.config_providers:
                found.append(f"{name} has an effect only in the broker's file ({kind.label})")
    if unknown:
        names = ", ".join(list(unknown)[:_UNKNOWN_SHOWN])
        more = ", ..." if len(unknown) > _UNKNOWN_SHOWN else ""
        found.append(f"no setting is called so, and nothing is done about it: {names}{more}")
    return tuple(found)


def dynamic_layers(
    all_brokers: Mapping[str, str], one_broker: Mapping[str, str]
) -> tuple[Layer, Layer]:
    """Return stored dynamic values as layers for `Settings.overlaid`, lowest precedence first.
    Values that cannot be used are left out; `dynamic_refusals` returns the reasons."""
    return (
        _layer(all_brokers, Source(SourceKind.DYNAMIC_DEFAULT), one_broker=False),
        _layer(one_broker, Source(SourceKind.DYNAMIC_BROKER), one_broker=True),
    )


def _layer(values: Mapping[str, str], source: Source, *, one_broker: bool) -> Layer:
    return tuple(
        GivenValue(name, value, source)
        for name, value in values.items()
        if (BROKER_SETTINGS.find(name) is not None or BROKER_SETTINGS.is_open(name))
        and _refusal(name, value, one_broker) is None
    )
