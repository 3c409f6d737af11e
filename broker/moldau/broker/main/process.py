"""A broker's process: tuned, started, announced on standard output, and stopped by a signal.

Invariants: standard output has only what a user needs to connect, and the log goes to standard
error. A start that fails ends with an exception that `moldau.cli` prints in one line. The first
SIGTERM, SIGINT or SIGHUP stops the process in order, the second at once.

Says which process has a port or a directory that a node needs, and which option gives another.

Ports are tried before anything starts: a broker that finds out later has already begun its log.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

from moldau.broker.main.given import settings_given
from moldau.cli.command import Context, Exit
from moldau.errors import ConfigError, MoldauError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from moldau.broker.exposition.application import Figures
    from moldau.broker.exposition.health import Observer
    from moldau.broker.exposition.push import MetricsPush
    from moldau.broker.server import Broker
    from moldau.config import Layer, Settings
    from moldau.link.telemetry.otlp import OtlpTarget
    from moldau.logging import Loggers
    from moldau.runtime import Runtime

SUFFIX_OF_UP: Final = " is up"
IN_USE: Final = "another process uses the directory"


class _Host(NamedTuple):
    """What this process knows of its host: the node ids of its shards, and whether the directories
    were empty."""

    shards: Collection[int]
    is_new: bool


def check_directories(settings: Settings) -> None:
    """Raise ConfigError if another process uses a directory of the node."""
    from moldau.broker.log.names import LOCK
    from moldau.broker.server.storage import places_of
    from moldau.runtime.real_files import RealFiles

    files = RealFiles()
    for path in places_of(settings).all:
        lock = f"{path}/{LOCK}"
        if files.exists(lock):
            try:
                files.lock(lock).release()
            except BlockingIOError:
                raise ConfigError(IN_USE, directory=path) from None
            except OSError:
                continue  # the start says what is wrong with the directory


def check_ports(settings: Settings, *, has_file: bool) -> None:
    """Raise MoldauError if another process listens at a port of the node."""
    from moldau.broker.settings import read_listeners
    from moldau.link.addresses import Address
    from moldau.runtime.holders import port_in_use

    for each in read_listeners(settings).bound:
        option = "another in listeners" if has_file else f"another, as --listen {each.port + 1}"
        problem = port_in_use(each.host, each.port, option)
        if problem is not None:
            address = str(Address(each.host, each.port))
            raise MoldauError(problem, listener=each.name, address=address)


@contextmanager
def naming_holder(*, has_file: bool) -> Iterator[None]:
    """Name the process that uses a directory, in the error of the block."""
    from moldau.broker.log.names import LOCK
    from moldau.runtime.holders import lock_holder

    try:
        yield
    except ConfigError as error:
        directory = error.context.get("directory")
        if error.reason != IN_USE or not isinstance(directory, str):
            raise
        holder = lock_holder(f"{directory}/{LOCK}")
        by = "" if holder is None else f": {holder}"
        option = "another log.dirs" if has_file else "another with --data (and --listen)"
        raise ConfigError(
            f"{IN_USE}{by}: stop it, or give {option}", directory=directory
        ) from error


def run_broker(arguments: Namespace, context: Context) -> int:
    """Run a broker or a controller until a signal, and return the exit code."""
    from moldau.broker.main.exposure import insecure_layer, refuse_exposed
    from moldau.broker.settings.tiered import remote_log_storage_system_enable
    from moldau.runtime.process import raise_open_files, share_freed_memory, tune_allocator
    from moldau.runtime.real import run
    from moldau.runtime.real_files import RealFiles

    tune_allocator()
    raise_open_files()
    settings = settings_given(
        arguments,
        context.environment,
        RealFiles(),
        arguments.listen,
        is_image=arguments.kafka_environment,
    )
    settings = settings.overlaid(options_layer(arguments), insecure_layer(arguments, settings))
    refuse_exposed(settings)
    if settings[remote_log_storage_system_enable]:
        share_freed_memory()
    otlp = _otlp_target(settings, context.environment)
    if otlp is not None:
        settings = settings.overlaid(_otlp_layer(otlp))
    if arguments.shard is not None:
        from moldau.broker.main.shard_supervisor import shard_settings

        settings = settings.overlaid(shard_settings(arguments, settings))

    async def main(runtime: Runtime) -> None:
        from moldau.runtime.collecting import collecting
        from moldau.runtime.signals import until_signal

        loggers = loggers_of(runtime, arguments, context.err)
        if arguments.kafka_environment:
            _warn_of_ignored(loggers, context.environment)
        served = _serve(runtime, settings, loggers, arguments, context, otlp)
        await until_signal(collecting(served))

    has_file = arguments.config is not None
    with naming_holder(has_file=has_file):
        check_directories(settings)
        check_ports(settings, has_file=has_file)
        run(main, node="broker")
    return Exit.DONE


def _warn_of_ignored(loggers: Loggers, environment: Mapping[str, str]) -> None:
    from moldau.broker.main.image_environment import ignored_variables

    log = loggers.get("moldau.broker.settings")
    for warning in ignored_variables(environment):
        log.warn(warning)


def options_layer(arguments: Namespace) -> Layer:
    """Return the settings of options that are short for one."""
    from moldau.broker.settings import console, registry, telemetry
    from moldau.config import GivenValue, Source, SourceKind

    given = {
        "--metrics": (telemetry.moldau_metrics_listener, arguments.metrics),
        "--otlp": (telemetry.moldau_metrics_otlp_endpoint, arguments.otlp),
        "--registry": (registry.moldau_registry_listener, arguments.registry),
        "--console": (console.moldau_console_listener, arguments.console),
    }
    return tuple(
        GivenValue(setting.name, value, Source(SourceKind.COMMAND_LINE, option))
        for option, (setting, value) in given.items()
        if value is not None
    )


def _otlp_target(settings: Settings, environment: Mapping[str, str]) -> OtlpTarget | None:
    from moldau.broker.settings.telemetry import moldau_metrics_otlp_endpoint
    from moldau.link.telemetry.otlp import otlp_target

    given = settings[moldau_metrics_otlp_endpoint]
    return otlp_target(given, environment, moldau_metrics_otlp_endpoint.name)


def _otlp_layer(target: OtlpTarget) -> Layer:
    """Return the setting as it is in force, if OpenTelemetry's variables name the receiver."""
    from moldau.broker.settings.telemetry import moldau_metrics_otlp_endpoint
    from moldau.config import overrides

    return overrides({moldau_metrics_otlp_endpoint.name: target.shown})


def loggers_of(runtime: Runtime, arguments: Namespace, err: TextIO) -> Loggers:
    """Write our log lines, and those of asyncio and other libraries, to `err`."""
    import logging

    from moldau.logging import Loggers, parse_level
    from moldau.logging.stdlib import StandardLines

    level = parse_level(arguments.log_level)
    loggers = Loggers(runtime.clock, err.write, json=arguments.log_json, level=level)
    root = logging.getLogger()
    root.handlers[:] = [StandardLines(loggers)]
    root.setLevel(logging.WARNING)
    return loggers


async def _serve(
    runtime: Runtime,
    settings: Settings,
    loggers: Loggers,
    arguments: Namespace,
    context: Context,
    otlp: OtlpTarget | None,
) -> None:
    from moldau.broker.settings import notices
    from moldau.broker.settings.node import node_id, process_roles
    from moldau.broker.settings.shards import balance_notices
    from moldau.records import tell_kernel

    log = loggers.get("moldau.broker.settings")
    for notice in notices(settings):
        log.warn(notice)
    for notice in balance_notices(settings, is_sharded=False) if arguments.shard is None else ():
        log.warn(notice)
    tell_kernel(loggers.get("moldau.records").warn)
    formats = (
        arguments.config is None or arguments.shard is not None or arguments.cluster_id is not None
    )
    out = context.out
    async with AsyncExitStack() as closing:
        served = sampler(runtime, settings, loggers, out)
        pushed = _metrics_pushed(runtime, otlp, loggers)
        both = (await closing.enter_async_context(each) for each in (served, pushed))
        observers = [each async for each in both if each is not None]
        is_new = formats and _format_if_empty(runtime, settings, arguments.cluster_id)
        host = _Host(shards_of(arguments, settings[node_id]), is_new=is_new)
        if "broker" in settings[process_roles]:
            await _serve_broker(runtime, settings, loggers, out, observers, host)
        else:
            await _serve_controller(runtime, settings, loggers, out, observers)


@asynccontextmanager
async def sampler(
    runtime: Runtime, settings: Settings, loggers: Loggers, out: TextIO
) -> AsyncIterator[Observer | None]:
    """Tell about the node: a shard tells its supervisor, another node serves its metrics."""
    from moldau.broker.settings.telemetry import moldau_metrics_listener
    from moldau.runtime.questions import answer_parent, is_asked

    is_shard, address = is_asked(), settings[moldau_metrics_listener]
    sampled = None
    # the first shard alone has the address of all
    if settings.is_given(moldau_metrics_listener) if is_shard else address:
        from moldau.broker.exposition.server import Sampled

        sampled = Sampled(runtime)
    try:
        if is_shard:
            from moldau.broker.main.shard_answers import ShardAnswers

            answers = ShardAnswers(runtime.clock, sampled)
            runtime.spawn(answer_parent(answers.answer), name="answers the supervisor")
            yield answers
        elif sampled is not None:
            async with metrics_served(runtime, settings, loggers, out, sampled.figures):
                yield sampled
        else:
            yield None
    finally:
        if sampled is not None:
            await sampled.aclose()


@asynccontextmanager
async def metrics_served(
    runtime: Runtime, settings: Settings, loggers: Loggers, out: TextIO, figures: Figures
) -> AsyncIterator[None]:
    """Serve the metrics, if a setting says where, from before the node's start to after its end."""
    from moldau.broker.settings.telemetry import moldau_metrics_http_config, moldau_metrics_listener

    address = settings[moldau_metrics_listener]
    if not address:
        yield
        return
    from moldau.broker.exposition.server import MetricsServer
    from moldau.broker.settings.listener import read_listeners
    from moldau.link.http.protection import HttpProtection, load_protection, open_to_all

    path = settings[moldau_metrics_http_config]
    by = HttpProtection() if path is None else load_protection(path, runtime.clock)
    metrics = MetricsServer(runtime, figures)
    try:
        names = [each.host for each in read_listeners(settings).advertised_broker]
        host, port = await metrics.start(address, by, names)
        if open_to_all(by, host):
            loggers.get("moldau.broker.main").warn(
                "the metrics are open to everyone: they show the names of topics and groups",
                address=f"{host}:{port}",
                setting=moldau_metrics_http_config.name,
            )
        report(out, f"metrics at {by.scheme}://{host or 'localhost'}:{port}/metrics\n")
        yield
    finally:
        await metrics.aclose()


@asynccontextmanager
async def _metrics_pushed(
    runtime: Runtime, target: OtlpTarget | None, loggers: Loggers
) -> AsyncIterator[MetricsPush | None]:
    """Push the metrics, if there is a receiver."""
    if target is None:
        yield None
        return
    from moldau.broker.exposition.push import MetricsPush

    push = MetricsPush(runtime, target, loggers.get("moldau.broker.metrics"))
    try:
        yield push
    finally:
        await push.finish()


async def _serve_controller(
    runtime: Runtime,
    settings: Settings,
    loggers: Loggers,
    out: TextIO,
    observers: Sequence[Observer],
) -> None:
    from moldau.broker.main.exposure import warn_of_exposed
    from moldau.broker.server.controller_node import ControllerNode
    from moldau.broker.settings.node import node_id
    from moldau.plugins.layers import platform_version
    from moldau.runtime.places import host_name

    node = await ControllerNode.start(runtime, settings, loggers=loggers, host_name=host_name())
    try:
        if observers:
            from moldau.broker.exposition.node import ObservedController

            for each in observers:
                each.watch(ObservedController(node))
        warn_of_exposed(settings, loggers.get("moldau.broker.settings"))
        at = ",".join(str(each) for each in node.endpoints.values())
        report(
            out,
            f"moldau controller {platform_version()} is up\n"
            f"  node       {settings[node_id]}\n"
            f"  address    {at}\n"
            "Ctrl-C stops it.\n",
        )
        await node.wait()
    finally:
        await node.aclose()


async def _serve_broker(
    runtime: Runtime,
    settings: Settings,
    loggers: Loggers,
    out: TextIO,
    observers: Sequence[Observer],
    host: _Host,
) -> None:
    from moldau.broker.main.exposure import warn_of_exposed
    from moldau.broker.server import Broker
    from moldau.broker.server.hosted_services import HostedServices, host_of
    from moldau.runtime.direct import open_direct
    from moldau.runtime.places import host_name
    from moldau.runtime.process import tune_collector

    services = HostedServices.prepare(
        runtime, settings, loggers, lambda line: report(out, f"{line}\n")
    )
    broker = await Broker.start(
        runtime,
        settings,
        loggers=loggers,
        open_direct=open_direct,
        host_name=host_name(),
        shards=host.shards,
    )
    try:
        if observers:
            from moldau.broker.exposition.node import ObservedBroker

            for each in observers:
                each.watch(ObservedBroker(broker, services))
        tune_collector()
        warn_of_exposed(broker.node.settings, loggers.get("moldau.broker.settings"))
        _announce(broker, out, is_new=host.is_new)
        services.start(lambda: host_of(broker))
        await broker.wait()
    finally:
        await services.aclose()
        await broker.aclose()


def shards_of(arguments: Namespace, own_id: int) -> Collection[int]:
    """Return the node ids of this host's shards, of which this process is one; none without."""
    if arguments.shard is None:
        return ()
    first = own_id - arguments.shard
    return range(first, first + arguments.shards)


def _format_if_empty(runtime: Runtime, settings: Settings, cluster_id: str | None) -> bool:
    from moldau.broker.server.storage import format_if_empty

    now_ms = runtime.clock.wall_ms()
    files, random = runtime.files, runtime.random
    return format_if_empty(files, settings, random, now_ms, "localhost", cluster_id)


def _announce(broker: Broker, out: TextIO, *, is_new: bool) -> None:
    """Print how to connect, and the data directories."""
    facts = {
        "bootstrap": ",".join(str(at) for at in broker.endpoints.values()),
        "data": ", ".join(each.path for each in broker.node.directories.directories),
        "cluster": broker.node.cluster_id + (" (new)" if is_new else ""),
    }
    report(out, announcement(facts, broker.node.settings))


def announcement(facts: Mapping[str, str], settings: Settings) -> str:
    """Return what is printed once a broker, or a host with its shards, serves clients."""
    from moldau.broker.settings import read_listeners
    from moldau.plugins.layers import platform_version

    protocols = {each.security_protocol for each in read_listeners(settings).of_broker}
    login = "" if protocols == {"PLAINTEXT"} else " --command-config FILE"
    lines = [f"  {name:<11}{value}\n" for name, value in facts.items()]
    return (
        f"moldau broker {platform_version()}{SUFFIX_OF_UP}\n"
        f"{''.join(lines)}"
        f"Try: moldau topic list --bootstrap {facts['bootstrap']}{login}\n"
        "Ctrl-C stops it.\n"
    )


def report(out: TextIO, text: str) -> None:
    """Print at once. Ignore that the output is not read."""
    with suppress(BrokenPipeError):
        out.write(text)
        out.flush()
