"""The settings of each shard of a host: `moldau broker start --shards N`. Pure.

A shard is a broker of the cluster in a process of its own. The given settings are those of shard 0.
The other shards differ in what two nodes cannot share:

| setting | of shard K |
|-|-|
| node.id | that of shard 0, plus K |
| ports of broker listeners, of metrics and of the registry | those of shard 0, plus K |
| log.dirs, metadata.log.dir | each with a folder `shard-K` |
| moldau.audit.log, moldau.console.audit | that of shard 0, with `.shard-K` behind it |
| process.roles | only shard 0 may be a controller |
| broker.rack | the same for all, so that replicas are spread over hosts |

Invariant: the settings of a shard depend only on the given settings and its number, so that a shard
finds its data again, even if there are more shards later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from moldau.broker.settings import log as log_rows
from moldau.broker.settings import network, read_listeners
from moldau.broker.settings.console import moldau_console_audit, moldau_console_listener
from moldau.broker.settings.controller import (
    controller_quorum_bootstrap_servers,
    controller_quorum_voters,
    metadata_log_dir,
)
from moldau.broker.settings.node import broker_id, broker_rack, node_id, process_roles
from moldau.broker.settings.registry import moldau_registry_advertised, moldau_registry_listener
from moldau.broker.settings.security import moldau_audit_log
from moldau.broker.settings.telemetry import moldau_metrics_listener
from moldau.config import overrides
from moldau.errors import ConfigError

if TYPE_CHECKING:
    from moldau.broker.settings import Listener
    from moldau.config import Layer, Settings
    from moldau.config.given import RawValue

SHARDS_MAX: Final = 64
FOLDER: Final = "shard-"
_PORT_MAX: Final = 65_535
_ADDRESSES: Final = (
    moldau_metrics_listener,
    moldau_registry_listener,
    moldau_registry_advertised,
    moldau_console_listener,
)
_AUDITS: Final = (moldau_audit_log, moldau_console_audit)


def shard_folder(directory: str, number: int) -> str:
    """Return the folder of a shard in a log directory."""
    return f"{directory}/{FOLDER}{number}"


def shard_layer(settings: Settings, number: int, count: int, *, is_standalone: bool) -> Layer:
    """Return the settings in which a shard differs from the given ones. `is_standalone`: no setting
    names controllers, so shard 0 is the controller of all."""
    first = settings[node_id]
    listeners = read_listeners(settings)
    controllers = list(listeners.of_controller) if number == 0 or is_standalone else []
    if is_standalone:
        (broker_port,) = {each.port for each in listeners.of_broker}
        controllers = [_at(each, broker_port + count) for each in controllers]
    brokers = [_shifted(each, number) for each in listeners.of_broker]
    taken = [each.port + shift for each in listeners.of_broker for shift in range(count)]
    for each in controllers:
        if each.port in taken:
            raise ConfigError(
                "a shard needs the port of the controller: put that behind the ports of all shards",
                listener=each.name,
                port=each.port,
                shards=count,
            )
    bound = [*brokers, *(controllers if number == 0 else [])]
    found: dict[str, RawValue] = {
        node_id.name: str(first + number),
        broker_id.name: str(first + number),  # the earlier name of node.id
        network.listeners.name: ",".join(map(_endpoint, bound)),
        log_rows.log_dirs.name: ",".join(
            shard_folder(each, number) for each in settings[log_rows.log_dirs] or ()
        ),
        broker_rack.name: settings[broker_rack] or f"host-{first}",
    }
    if number and "controller" in settings[process_roles]:
        found[process_roles.name] = "broker"
    if settings[network.advertised_listeners] is not None:
        told = [_shifted(each, number) for each in listeners.advertised_broker]
        found[network.advertised_listeners.name] = ",".join(map(_endpoint, told))
    for row in _ADDRESSES:
        address = settings[row]
        if address:
            found[row.name] = _shifted_address(address, number)
    metadata = settings[metadata_log_dir]
    if metadata is not None:
        found[metadata_log_dir.name] = shard_folder(metadata, number)
    for row in _AUDITS:
        audit = settings[row]
        if audit and number:
            found[row.name] = f"{audit}.{FOLDER}{number}"
    cordoned = settings[log_rows.cordoned_log_dirs]
    if cordoned and cordoned != ("*",):
        found[log_rows.cordoned_log_dirs.name] = ",".join(
            shard_folder(each, number) for each in cordoned
        )
    if is_standalone:
        (controller,) = controllers
        found[controller_quorum_voters.name] = f"{first}@{controller.host}:{controller.port}"
        found[controller_quorum_bootstrap_servers.name] = ""
    return overrides(found)


def _shifted(listener: Listener, number: int) -> Listener:
    if not listener.port:
        raise ConfigError(
            "--shards needs listeners with ports of their own", listener=listener.name
        )
    return _at(listener, listener.port + number)


def _shifted_address(address: str, number: int) -> str:
    """Return HOST:PORT with the port of a shard. What is no port is left for the check to name."""
    host, colon, port = address.rpartition(":")
    return f"{host}{colon}{int(port) + number}" if port.isdecimal() else address


def _at(listener: Listener, port: int) -> Listener:
    if port > _PORT_MAX:
        raise ConfigError("there is no port left for a shard", listener=listener.name, port=port)
    return type(listener)(listener.name, listener.host, port, listener.security_protocol)


def _endpoint(listener: Listener) -> str:
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{listener.name}://{host}:{listener.port}"
