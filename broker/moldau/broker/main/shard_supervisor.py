"""`moldau broker start --shards N`: several brokers of one cluster on this host, by one command.

Each shard is a process of its own, started with the arguments of this command and its number. This
process prints a line for each, restarts one that ends by itself, and stops all on the first SIGTERM
or Ctrl-C: shard 0 last, because the others may need it as their controller to leave the cluster.

Invariants: no shard outlives this process, however that ends. The log of a shard goes to standard
error. A shard that does not come up at the start ends the command.

The settings of each shard of a host: `moldau broker start --shards N`. Pure.

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

from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.broker.main.exposure import insecure_layer, refuse_exposed
from moldau.broker.main.given import settings_given
from moldau.broker.server.storage import known_cluster, places_of
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
from moldau.cli.command import Context, Exit
from moldau.config import overrides
from moldau.errors import ConfigError, MoldauError
from moldau.ids import format_uuid, new_uuid
from moldau.runtime.backoff import Backoff
from moldau.runtime.node_processes import NodeProcess, pause_s
from moldau.runtime.restarts import RestartPolicy
from moldau.runtime.supervised import Supervised, stop_supervised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moldau.broker.settings import Listener
    from moldau.config import Layer, Settings
    from moldau.config.given import RawValue
    from moldau.runtime import Clock
    from moldau.runtime.files import Files

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


START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
EXIT_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.2
RESTARTS: Final = RestartPolicy(Backoff(1_000, 30_000), steady_ms=10_000)
_UP: Final = " is up"
_PASSED_VALUES: Final = (
    "config",
    "console",
    "data",
    "listen",
    "log_level",
    "metrics",
    "otlp",
    "registry",
)
"""The options of `moldau broker start` with a value that each shard gets as well."""
_PASSED_FLAGS: Final = ("insecure", "kafka_environment", "log_json")
"""Those without a value."""


class ShardFailed(MoldauError):
    """A shard did not start; the log lines above it show the reason."""


def is_standalone(arguments: Namespace, settings: Settings) -> bool:
    """Whether no setting names controllers, so that the shards are a cluster of their own."""
    from moldau.broker.settings.controller import controller_quorum_voters

    return arguments.config is None and not settings[controller_quorum_voters]


def shard_settings(arguments: Namespace, settings: Settings) -> Layer:
    """Return the settings of this process's shard that differ from the given settings."""
    return shard_layer(
        settings,
        arguments.shard,
        arguments.shards,
        is_standalone=is_standalone(arguments, settings),
    )


def run_shards(arguments: Namespace, context: Context) -> int:
    """Run all shards until a signal, and return the exit code."""
    from moldau.runtime.real import RealRuntime
    from moldau.runtime.signals import interrupted_by_sigterm

    runtime = RealRuntime("shards")
    settings = settings_given(
        arguments,
        context.environment,
        runtime.files,
        arguments.listen,
        is_image=arguments.kafka_environment,
    )
    refuse_exposed(settings.overlaid(insecure_layer(arguments, settings)))
    # report impossible settings once, before any shard starts
    for number in range(arguments.shards):
        arguments.shard = number
        shard_settings(arguments, settings)
    known = _cluster_id(runtime.files, settings, arguments)
    cluster_id = known or format_uuid(new_uuid(runtime.random))
    words = shard_words(arguments, cluster_id)
    shards = Shards(words, arguments.shards, context, runtime.clock)
    try:
        with interrupted_by_sigterm():
            shards.start()
            shards.watch()
    except KeyboardInterrupt:
        shards.report("stops all shards")
    finally:
        shards.stop()
    return Exit.DONE


def _cluster_id(files: Files, settings: Settings, arguments: Namespace) -> str | None:
    """Return the id of the cluster that the data belong to; None for a new cluster. Raise
    ConfigError if shards with data would not be started, or if the directory has the data of a node
    without shards."""
    directories = places_of(settings).all
    for directory in directories:
        names = files.list(directory) if files.exists(directory) else []
        if "meta.properties" in names:
            raise ConfigError(
                "the directory has the data of a node without shards; give shards another one",
                directory=directory,
            )
        known = [each.removeprefix(FOLDER) for each in names if each.startswith(FOLDER)]
        left = sorted(int(each) for each in known if each.isdigit())
        if left and left[-1] >= arguments.shards:
            raise ConfigError(
                f"there are data of shard {left[-1]}: start as many shards as before; "
                "`moldau broker decommission` takes a broker out of the cluster, then its folder "
                "can be removed",
                directory=shard_folder(directory, left[-1]),
                shards=arguments.shards,
            )
    arguments.shard = 0
    first = settings.overlaid(shard_settings(arguments, settings))
    found = known_cluster(files, places_of(first)) or arguments.cluster_id
    if found is None and not is_standalone(arguments, settings):
        raise ConfigError("shards of a larger cluster need its id: give it with --cluster-id")
    return found


def shard_words(arguments: Namespace, cluster_id: str) -> list[str]:
    """Return the arguments of the command that starts a shard, without its number."""
    words = ["broker", "start", "--shards", str(arguments.shards), "--cluster-id", cluster_id]
    for option in _PASSED_VALUES:
        value = getattr(arguments, option)
        if value is not None:
            words += [f"--{option.replace('_', '-')}", value]
    for each in arguments.assignments:
        words += ["--set", each]
    for option in _PASSED_FLAGS:
        if getattr(arguments, option):
            words.append(f"--{option.replace('_', '-')}")
    return words


class Shards:
    """The processes of the shards."""

    def __init__(self, words: Sequence[str], count: int, context: Context, clock: Clock) -> None:
        self._context = context
        self._shards = [
            Supervised(partial(_launch, words, number), clock, RESTARTS) for number in range(count)
        ]

    def start(self) -> None:
        """Start all shards, and print a line for each. Raise ShardFailed if one does not start."""
        for shard in self._shards:
            shard.start(is_up=False)
        for number in range(len(self._shards)):
            self._await_up(number)
        self.report("Ctrl-C stops all.")

    def _await_up(self, number: int) -> None:
        process = self._shards[number].process
        assert process is not None
        line = process.line(START_SECONDS)
        while line is not None and _UP not in line:  # such as where the metrics are
            line = process.line(START_SECONDS)
        if line is None:
            code = process.wait(EXIT_SECONDS)
            why = "did not come up in time" if code is None else f"ended with code {code}"
            raise ShardFailed(f"shard {number} {why}; the lines above say why")
        told = dict(self._fact(process.line(EXIT_SECONDS)) for _ in range(2))
        self.report(
            f"shard {number} is up at {told.get('bootstrap', '?')}, data {told.get('data', '?')}"
        )
        self._shards[number].on_up()

    @staticmethod
    def _fact(line: str | None) -> tuple[str, str]:
        name, _, value = (line or "").strip().partition(" ")
        return name, value.strip()

    def watch(self) -> None:
        """Restart each shard that ends by itself. Only an exception ends this."""
        while True:
            pause_s(LOOK_SECONDS)
            for number, shard in enumerate(self._shards):
                self._watch(number, shard)

    def _watch(self, number: int, shard: Supervised) -> None:
        if shard.take_restart(is_up=False):
            try:
                self._await_up(number)
            except ShardFailed as error:
                self.report(str(error))
        elif (end := shard.take_end(is_failure=lambda _: True)) is not None:
            assert end.pause_ms is not None, "restarts have no end"
            again = f"it is started again in {end.pause_ms // 1000} s"
            self.report(f"shard {number} ended with code {end.code}; {again}")

    def stop(self) -> None:
        """Stop all shards; shard 0 last."""
        stop_supervised(self._shards[1:], STOP_SECONDS)
        stop_supervised(self._shards[:1], STOP_SECONDS)

    def report(self, text: str) -> None:
        """Print a line for the user."""
        self._context.out.write(f"{text}\n")
        self._context.out.flush()


def _launch(words: Sequence[str], number: int) -> NodeProcess:
    return NodeProcess([*words, "--shard", str(number)], None, is_leashed=True)
