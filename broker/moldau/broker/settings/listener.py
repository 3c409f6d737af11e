"""The listeners that several settings describe together, and Kafka's rules for them.

`listeners` has their addresses, `listener.security.protocol.map` their protocols,
`controller.listener.names` the names of the controllers' listeners, `advertised.listeners` the
addresses for clients. `read_listeners` combines them or raises ConfigError. It is a rule of
BROKER_SETTINGS, so resolved settings always have valid listeners.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import replace

from moldau.broker.settings.controller import controller_listener_names, controller_quorum_voters
from moldau.broker.settings.network import (
    advertised_listeners,
    early_start_listeners,
    inter_broker_listener_name,
    listener_security_protocol_map,
    listeners,
    security_inter_broker_protocol,
)
from moldau.broker.settings.node import node_id, process_roles
from moldau.broker.settings.syntax import parse_endpoint, parse_protocol_map, parse_voter
from moldau.config import Settings
from moldau.deferred import dataclass
from moldau.errors import ConfigError

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - rejected as an advertised host


@dataclass(frozen=True, slots=True)
class Listener:
    """A named address to bind or to advertise. An empty host means every address."""

    name: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True)
class Listeners:
    """All listeners of one node. Names are in upper case."""

    bound: tuple[Listener, ...]
    advertised_broker: tuple[Listener, ...]
    advertised_controller: tuple[Listener, ...]
    controller_names: tuple[str, ...]
    inter_broker: str
    inter_broker_protocol: str
    security_protocols: dict[str, str]

    @property
    def of_controller(self) -> tuple[Listener, ...]:
        """The bound listeners for controllers, and for the requests of brokers to them."""
        return tuple(each for each in self.bound if each.name in self.controller_names)

    @property
    def of_broker(self) -> tuple[Listener, ...]:
        return tuple(each for each in self.bound if each.name not in self.controller_names)


def read_listeners(settings: Settings) -> Listeners:
    """Return the listeners in the settings. Raise ConfigError if they contradict each other."""
    protocols = _security_protocols(settings)
    controllers = tuple(name.upper() for name in settings[controller_listener_names])
    bound = _listeners(settings[listeners], protocols)
    _refuse_shared_ports(bound)
    inter_broker, inter_broker_protocol = _inter_broker(settings, protocols)
    told = settings[advertised_listeners]
    advertised = None if told is None else _listeners(told, protocols)
    return Listeners(
        bound=bound,
        advertised_broker=tuple(
            each
            for each in (bound if advertised is None else advertised)
            if each.name not in controllers
        ),
        advertised_controller=_advertised_controller(
            settings, controllers, bound, advertised or ()
        ),
        controller_names=controllers,
        inter_broker=inter_broker,
        inter_broker_protocol=inter_broker_protocol,
        security_protocols=protocols,
    )


def _security_protocols(settings: Settings) -> dict[str, str]:
    """Return the map; the default one also has PLAINTEXT for controllers' listeners, unless a
    listener is named after a secure protocol."""
    protocols = parse_protocol_map(settings[listener_security_protocol_map])
    assert protocols is not None
    controllers = [name.upper() for name in settings[controller_listener_names]]
    if settings.is_given(listener_security_protocol_map):
        return protocols
    named = [endpoint.partition(":")[0].upper() for endpoint in settings[listeners]]
    if not {"SSL", "SASL_PLAINTEXT", "SASL_SSL"} & {*controllers, *named}:
        protocols.update((name, "PLAINTEXT") for name in controllers)
    return protocols


def _listeners(endpoints: Iterable[str], protocols: dict[str, str]) -> tuple[Listener, ...]:
    found: dict[str, Listener] = {}
    for text in endpoints:
        endpoint = parse_endpoint(text)
        assert endpoint is not None
        name, address = endpoint
        if name in found:
            raise ConfigError("two listeners have the same name", listener=name)
        if name not in protocols:
            raise ConfigError(
                "no security protocol for a listener in listener.security.protocol.map",
                listener=name,
            )
        found[name] = Listener(name, address.host, address.port, protocols[name])
    return tuple(found.values())


def _refuse_shared_ports(bound: tuple[Listener, ...]) -> None:
    """Raise ConfigError if listeners share a port, except for one IPv4 and one IPv6 address."""
    by_port: dict[int, list[Listener]] = {}
    for each in bound:
        if each.port != 0:
            by_port.setdefault(each.port, []).append(each)
    for port, sharing in by_port.items():
        if len(sharing) > 1 and sorted(_ip_version(each.host) for each in sharing) != [4, 6]:
            raise ConfigError(
                "listeners share a port, which only one IPv4 and one IPv6 address can",
                port=port,
                listeners=[each.name for each in sharing],
            )


def _ip_version(host: str) -> int:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        return 0


def _advertised_controller(
    settings: Settings,
    controllers: tuple[str, ...],
    bound: tuple[Listener, ...],
    advertised: tuple[Listener, ...],
) -> tuple[Listener, ...]:
    """Return the advertised address of each controllers' listener, or else its bound address. For
    the first one, if it is bound to every address, the address of this node among the fixed voters
    counts."""
    found = []
    for name in controllers:
        told = next((each for each in advertised if each.name == name), None)
        here = next((each for each in bound if each.name == name), None)
        if told is None and here is not None:
            is_first = name == controllers[0]
            told = _from_voters(settings, here) if is_first else _without_wildcard(here)
        if told is not None:
            found.append(told)
    return tuple(found)


def _from_voters(settings: Settings, listener: Listener) -> Listener:
    if listener.host in ("", EVERY_ADDRESS):
        for text in settings[controller_quorum_voters]:
            voter = parse_voter(text)
            if voter is not None and voter.node_id == settings[node_id]:
                return replace(listener, host=voter.address.host, port=voter.address.port)
    return _without_wildcard(listener)


def _without_wildcard(listener: Listener) -> Listener:
    return replace(listener, host="") if listener.host == EVERY_ADDRESS else listener


def _inter_broker(settings: Settings, protocols: dict[str, str]) -> tuple[str, str]:
    """Return the listener between brokers and its security protocol."""
    name = settings[inter_broker_listener_name]
    if name is None:
        protocol = settings[security_inter_broker_protocol]
        return protocol, protocol
    if settings.is_given(security_inter_broker_protocol):
        raise ConfigError(
            f"only one of {inter_broker_listener_name.name} and "
            f"{security_inter_broker_protocol.name} can be given"
        )
    if name.upper() not in protocols:
        raise ConfigError(
            "inter.broker.listener.name names no listener of listener.security.protocol.map",
            listener=name.upper(),
        )
    return name.upper(), protocols[name.upper()]


def listener_conflict(settings: Settings) -> str | None:
    """Check, as a rule of BROKER_SETTINGS, that the listeners fit each other, the roles and the
    advertised addresses. Return the problem, or None."""
    try:
        found = read_listeners(settings)
        _refuse_by_role(settings, found)
    except ConfigError as conflict:
        return str(conflict)
    return None


def _refuse_by_role(settings: Settings, found: Listeners) -> None:
    roles = set(settings[process_roles])
    bound = {each.name for each in found.bound}
    if "controller" not in roles:
        _refuse_broker_only(found, bound)
    else:
        _refuse_controller(settings, found, bound, roles)
    early = {name.upper() for name in settings[early_start_listeners] or ()}
    if early - bound:
        raise ConfigError(
            f"{early_start_listeners.name} must only name {listeners.name}",
            not_there=sorted(early - bound),
        )
    if "broker" in roles:
        _refuse_advertised(found, bound)
    for each in (*found.advertised_broker, *found.advertised_controller):
        if each.host == EVERY_ADDRESS:
            raise ConfigError(
                f"clients cannot connect to {EVERY_ADDRESS}: give {advertised_listeners.name} "
                "a host that they can reach",
                listener=each.name,
            )


def _refuse_broker_only(found: Listeners, bound: set[str]) -> None:
    if not found.controller_names:
        raise ConfigError("a broker must know the listener of its controllers", setting=_NAMES)
    for name in found.controller_names:
        if name in bound:
            raise ConfigError(
                "a process that is only a broker cannot listen as a controller", listener=name
            )
        if name not in found.security_protocols:
            raise ConfigError(
                "no security protocol for a controllers' listener in "
                "listener.security.protocol.map",
                listener=name,
            )


def _refuse_controller(
    settings: Settings, found: Listeners, bound: set[str], roles: set[str]
) -> None:
    if "broker" not in roles:
        if bound - set(found.controller_names):
            raise ConfigError(
                "a process that is only a controller listens only as one",
                listeners=sorted(bound - set(found.controller_names)),
            )
        if (
            settings.is_given(inter_broker_listener_name)
            and found.inter_broker in found.controller_names
        ):
            raise ConfigError(
                "the listener between brokers cannot be one of the controllers",
                listener=found.inter_broker,
            )
    if not found.advertised_controller:
        raise ConfigError(f"{_NAMES} must name one of the {listeners.name}")
    missing = set(found.controller_names) - bound
    if missing:
        raise ConfigError(f"{_NAMES} must only name {listeners.name}", not_there=sorted(missing))


def _refuse_advertised(found: Listeners, bound: set[str]) -> None:
    told = {each.name for each in found.advertised_broker}
    if not told:
        raise ConfigError(f"a broker needs a listener that {_NAMES} does not name")
    if found.inter_broker not in told:
        raise ConfigError(
            "the listener between brokers must be one that is advertised",
            listener=found.inter_broker,
            advertised=sorted(told),
        )
    if told - bound:
        raise ConfigError(
            f"{advertised_listeners.name} can only name {listeners.name}",
            not_there=sorted(told - bound),
        )


_NAMES = controller_listener_names.name
