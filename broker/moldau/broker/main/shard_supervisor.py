"""`moldau broker start --shards N`: several brokers of one cluster on this host, as one node.

Each shard is a process of its own, started with the arguments of this command and its number. This
process says where the node is as one broker does, serves the metrics and the health of all shards
at one address, restarts a shard that ends by itself, and stops all on the first SIGTERM or Ctrl-C:
shard 0 last, because the others may need it as their controller to leave the cluster.

Invariants: no shard outlives this process, however that ends. The log of a shard goes to standard
error. A shard that does not come up at the start ends the command.

The settings of each shard of a host: `moldau broker start --shards N`. Pure.

A shard is a broker of the cluster in a process of its own. The given settings are those of shard 0.
The other shards differ in what two nodes cannot share:

| setting | of shard K |
|-|-|
| node.id | that of shard 0, plus K |
| ports of broker listeners | those of shard 0, plus K |
| moldau.metrics.listener, of the registry and of the console | only shard 0 has one |
| log.dirs, metadata.log.dir | each with a folder `shard-K` |
| moldau.audit.log, moldau.console.audit | that of shard 0, with `.shard-K` behind it |
| process.roles | only shard 0 may be a controller |
| broker.rack | the same for all, so that replicas are spread over hosts |

Invariant: the settings of a shard depend only on the given settings and its number, so that a shard
finds its data again, even if there are more shards later.
"""

from __future__ import annotations

import asyncio
from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING, Final

from moldau.broker.main.exposure import insecure_layer, refuse_exposed
from moldau.broker.main.given import settings_given
from moldau.broker.main.process import (
    SUFFIX_OF_UP,
    announcement,
    loggers_of,
    metrics_served,
    options_layer,
    report,
)
from moldau.broker.main.shard_count import FOLDER
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
from moldau.broker.settings.shards import balance_notices, moldau_shards_balance_enable
from moldau.broker.settings.telemetry import moldau_metrics_listener
from moldau.cli.command import Context, Exit
from moldau.config import overrides
from moldau.errors import ConfigError, MoldauError
from moldau.ids import format_uuid, new_uuid
from moldau.runtime.backoff import Backoff
from moldau.runtime.node_processes import NodeProcess
from moldau.runtime.questions import ASKED, Questions, open_questions
from moldau.runtime.real_files import RealFiles
from moldau.runtime.restarts import RestartPolicy
from moldau.runtime.supervised import Supervised, stop_supervised

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TextIO

    from moldau.broker.settings import Listener
    from moldau.config import Layer, Settings
    from moldau.config.given import RawValue
    from moldau.runtime import Runtime
    from moldau.runtime.files import Files

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
        if len(listeners.of_broker) > 1:
            raise ConfigError(
                "shards without a file have one listener of brokers: give the others in --config",
                listeners=",".join(each.name for each in listeners.of_broker),
            )
        broker_port = listeners.of_broker[0].port
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
    if number:
        found |= {row.name: "" for row in _ADDRESSES if settings[row]}
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
LOOK_SECONDS: Final = 0.1
FIRST_LOOK_SECONDS: Final = 0.02
RESTARTS: Final = RestartPolicy(Backoff(1_000, 30_000), steady_ms=10_000)
_LAST_LINE: Final = "Ctrl-C"
_TRY: Final = "Try:"
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
    from moldau.runtime.real import run
    from moldau.runtime.signals import until_signal

    settings = settings_given(
        arguments,
        context.environment,
        RealFiles(),
        arguments.listen,
        is_image=arguments.kafka_environment,
    )
    settings = settings.overlaid(options_layer(arguments), insecure_layer(arguments, settings))
    refuse_exposed(settings)
    # report impossible settings once, before any shard starts
    for number in range(arguments.shards):
        arguments.shard = number
        shard_settings(arguments, settings)

    async def main(runtime: Runtime) -> None:
        known = _cluster_id(runtime.files, settings, arguments)
        cluster_id = known or format_uuid(new_uuid(runtime.random))
        words = shard_words(arguments, cluster_id)
        is_asked = settings[moldau_metrics_listener] or settings[moldau_shards_balance_enable]
        asked = ASKED if is_asked else {}
        launches = [partial(_launch, words, each, asked) for each in range(arguments.shards)]
        shards = Shards(launches, context.out, runtime)
        await until_signal(_serve(shards, runtime, settings, arguments, context))

    run(main, node="shards")
    return Exit.DONE


async def _serve(
    shards: Shards,
    runtime: Runtime,
    settings: Settings,
    arguments: Namespace,
    context: Context,
) -> None:
    """Run and balance the shards. Their metrics are served from before their start to after their
    end."""
    from moldau.broker.exposition.server import ShardFigures
    from moldau.broker.main.shard_balance import ShardBalance

    loggers = loggers_of(runtime, arguments, context.err)
    log = loggers.get("moldau.broker.shards")
    for notice in balance_notices(settings, is_sharded=True):
        log.warn(notice)
    balance = ShardBalance(runtime, settings, shards.asked, log)
    figures = ShardFigures(shards.asked, balance.page)
    async with metrics_served(runtime, settings, loggers, context.out, figures):
        try:
            await shards.start()
            shards.announce(settings)
            if settings[moldau_shards_balance_enable]:
                balance.begin()
            await shards.watch()
        finally:
            await balance.aclose()
            await shards.stop()


def _cluster_id(files: Files, settings: Settings, arguments: Namespace) -> str | None:
    """Return the id of the cluster that the data belong to; None for a new cluster."""
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


class _Shard:
    """One shard: its process, and what it has said since its start."""

    def __init__(self, supervised: Supervised) -> None:
        self.supervised = supervised
        self.questions: Questions | None = None
        self.facts: dict[str, str] = {}
        self.is_up = False

    async def open(self, runtime: Runtime) -> None:
        """Begin to ask the process that was started."""
        process = self.supervised.process
        assert process is not None
        self.facts, self.is_up, self.questions = {}, False, None
        if process.questions is not None:
            self.questions = await open_questions(runtime, process.questions)

    def read(self) -> list[str]:
        """Read what the process has said, and return the lines that are for the user."""
        lines: list[str] = []
        process = self.supervised.process
        while process is not None and (line := process.line(0)) is not None:
            if line.startswith("  "):
                name, _, value = line.strip().partition(" ")
                self.facts[name] = value.strip()
            elif line.startswith(_LAST_LINE):
                self.is_up = True
                self.supervised.on_up()
            elif not (line.startswith(_TRY) or line.endswith(SUFFIX_OF_UP)):
                lines.append(line)  # such as where the console is
        return lines


class Shards:
    """The shards of this host."""

    def __init__(
        self, launches: Sequence[Callable[[], NodeProcess]], out: TextIO, runtime: Runtime
    ) -> None:
        self._out = out
        self._runtime = runtime
        self._shards = [_Shard(Supervised(launch, runtime.clock, RESTARTS)) for launch in launches]

    def asked(self) -> Mapping[int, Questions | None]:
        """Return the shards that can be asked; None for one that does not run."""
        return {
            number: None if each.supervised.process is None else each.questions
            for number, each in enumerate(self._shards)
        }

    async def start(self) -> None:
        """Start all shards. Raise ShardFailed if one does not come up."""
        for shard in self._shards:
            shard.supervised.start(is_up=False)
            await shard.open(self._runtime)
        until_s = self._runtime.clock.monotonic() + START_SECONDS
        while not all(each.is_up for each in self._shards):
            for number, shard in enumerate(self._shards):
                self._pass_on(shard.read())
                process = shard.supervised.process
                if not shard.is_up and process is not None and process.exit_code is not None:
                    raise ShardFailed(
                        f"shard {number} ended with code {process.exit_code}; "
                        "the lines above say why"
                    )
            if self._runtime.clock.monotonic() > until_s:
                late = next(n for n, each in enumerate(self._shards) if not each.is_up)
                raise ShardFailed(f"shard {late} did not come up in time")
            await asyncio.sleep(FIRST_LOOK_SECONDS)

    def announce(self, settings: Settings) -> None:
        """Print where the node is, as one broker does."""
        first, last = (each.facts["bootstrap"] for each in (self._shards[0], self._shards[-1]))
        ends = [each.partition(",")[0] for each in (first, last)]
        facts = {
            "bootstrap": first,
            "data": ", ".join(places_of(settings).logs),
            "cluster": self._shards[0].facts["cluster"],
            "shards": f"{len(self._shards)}, at {ends[0]} to {ends[1].rpartition(':')[2]}",
        }
        report(self._out, announcement(facts, settings))

    async def watch(self) -> None:
        """Restart each shard that ends by itself. Only a cancellation ends this."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for number, shard in enumerate(self._shards):
                await self._watch(number, shard)

    async def _watch(self, number: int, shard: _Shard) -> None:
        was_up = shard.is_up
        self._pass_on(shard.read())
        if shard.is_up and not was_up:
            report(self._out, f"shard {number} is up again\n")
        end = shard.supervised.take_end(is_failure=lambda _: True)
        if end is not None:
            assert end.pause_ms is not None, "restarts have no end"
            shard.is_up, shard.questions = False, None
            again = f"it is started again in {end.pause_ms // 1000} s"
            report(self._out, f"shard {number} ended with {end.how}; {again}\n")
        elif shard.supervised.take_restart(is_up=False):
            await shard.open(self._runtime)

    async def stop(self) -> None:
        """Stop all shards; shard 0 last."""
        for some in (self._shards[1:], self._shards[:1]):
            supervised = [each.supervised for each in some]
            await self._runtime.run_blocking(stop_supervised, supervised, STOP_SECONDS)

    def _pass_on(self, lines: Sequence[str]) -> None:
        for each in lines:
            report(self._out, f"{each}\n")


def _launch(words: Sequence[str], number: int, environment: Mapping[str, str]) -> NodeProcess:
    words = [*words, "--shard", str(number)]
    return NodeProcess(words, None, environment, is_leashed=True)
