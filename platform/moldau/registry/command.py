"""`moldau registry`: runs a Schema Registry on a cluster.

moldau registry start --bootstrap localhost:9092
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.cli.addresses import host_and_port
from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.actions import Action, ActionCommand
from moldau.cli.log_format import add_log_format
from moldau.cli.otlp_options import add_otlp_option
from moldau.cli.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.link.telemetry.otlp import OtlpPush, OtlpTarget
    from moldau.logging import Logger
    from moldau.metrics import Metric
    from moldau.registry.server import Options, SchemaRegistryServer
    from moldau.runtime import Runtime

LISTEN: Final = "127.0.0.1:8081"
_WILDCARDS: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 - compared, not bound
_NEEDED: Final = ("fastavro", "jsonschema_rs", "starlette", "uvicorn")


def _add(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        default=LISTEN,
        metavar="HOST:PORT",
        help=f"where the REST API is served; default: {LISTEN}",
    )
    parser.add_argument(
        "--advertised",
        metavar="HOST:PORT",
        help="where other instances reach this one; default: as --listen",
    )
    parser.add_argument(
        "--http-config",
        metavar="FILE",
        help="settings that protect the API: TLS, client certificates, passwords, bearer tokens "
        "(docs/security.md)",
    )
    parser.add_argument("--topic", default="_schemas", help="default: _schemas")
    parser.add_argument(
        "--group",
        default="schema-registry",
        help="the group in which instances elect the one that writes; default: schema-registry",
    )
    add_otlp_option(parser)
    parser.add_argument("--log-level", default="warn", help="default: warn")
    add_log_format(parser)


def _start(arguments: Namespace, context: Context) -> int:
    from moldau.cli.commands.cluster_connection import client_settings, naming_source
    from moldau.link.telemetry.metrics import SETTING, metrics_target
    from moldau.runtime.real import run

    check_installed()
    addresses = options_of(arguments.listen, arguments.advertised)
    options = replace(addresses, topic=arguments.topic, group=arguments.group)
    settings = client_settings(arguments, context)
    set_to = settings.pop(SETTING, None)
    option = "--otlp" if arguments.otlp else SETTING
    otlp = metrics_target(arguments.otlp or set_to, context.environment, option)

    async def main(runtime: Runtime) -> None:
        from moldau.registry.server import SchemaRegistryServer
        from moldau.runtime.signals import until_signal

        log = _logger(runtime, arguments, context)
        chosen = protected(options, arguments.http_config, runtime)
        warning = open_warning(chosen, "--http-config")
        if warning is not None:
            context.err.write(f"moldau: {warning}\n")
        server = SchemaRegistryServer(runtime, settings, chosen, log)
        await until_signal(_serve(runtime, server, otlp, context))

    with naming_source(settings):
        run(main, node="registry")
    return Exit.DONE


def protected(options: Options, path: str | None, runtime: Runtime) -> Options:
    """Return the options with the protection of a file. Raise ConfigError."""
    from moldau.link.http.protection import load_peer_context, load_protection

    if path is None:
        return options
    protection = load_protection(path, runtime.clock)
    peers = load_peer_context(path, runtime.clock)
    return replace(options, protection=protection, peers=peers)


def open_warning(options: Options, cure: str) -> str | None:
    """Return a warning if the registry is open to the network; `cure` is the option or setting that
    protects it."""
    from moldau.link.http.protection import open_to_all

    host, port = options.listen
    if not open_to_all(options.protection, host):
        return None
    return (
        f"the registry has no login: {host}:{port} lets every visitor change schemas; {cure} "
        "protects it"
    )


async def _serve(
    runtime: Runtime, server: SchemaRegistryServer, otlp: OtlpTarget | None, context: Context
) -> None:
    from moldau.runtime.signals import forever

    async with AsyncExitStack() as left:
        left.push_async_callback(server.aclose)
        address = await server.start()
        if otlp is not None:
            push = _metrics_pushed(runtime, otlp, server)
            left.push_async_callback(push.finish)
        with suppress(BrokenPipeError):
            context.out.write(f"moldau registry is up at {address}\nCtrl-C stops it.\n")
            context.out.flush()
        await forever()


def _metrics_pushed(runtime: Runtime, otlp: OtlpTarget, server: SchemaRegistryServer) -> OtlpPush:
    """Begin to push the metrics of an instance."""
    from moldau.link.telemetry.metrics import metrics_push

    async def read() -> Sequence[Metric]:
        return server.metrics.snapshot()

    resource = {"service.name": "moldau-registry", "service.instance.id": server.url}
    push = metrics_push(runtime, otlp, resource, read)
    push.start()
    return push


def options_of(
    listen: str,
    advertised: str | None,
    named: tuple[str, str] = ("--listen", "--advertised"),
) -> Options:
    """Return the options of two addresses, as HOST:PORT; `named` are their names. Raise
    UsageError."""
    from moldau.registry.server import Options

    address = host_and_port(listen, named[0])
    other = None
    if advertised is not None:
        other = host_and_port(advertised, named[1])
    elif address[0] in _WILDCARDS:
        raise UsageError(
            f"{named[0]} {listen} is every address of this machine: give {named[1]} HOST:PORT, by "
            "which other instances reach this one"
        )
    return Options(address, other)


def check_installed() -> None:
    """Raise ConfigError if a package of the extra `registry` is missing."""
    from importlib.util import find_spec

    from moldau.errors import ConfigError
    from moldau.plugins.extras import install_command

    for name in _NEEDED:
        if find_spec(name) is None:
            raise ConfigError(f"the schema registry needs {name}: {install_command('registry')}")


def _logger(runtime: Runtime, arguments: Namespace, context: Context) -> Logger:
    """Return a logger that writes to standard error, also the lines of other libraries."""
    import logging

    from moldau.logging import Loggers, parse_level
    from moldau.logging.stdlib import StandardLines

    level = parse_level(arguments.log_level)
    loggers = Loggers(runtime.clock, context.err.write, json=arguments.log_json, level=level)
    root = logging.getLogger()
    root.handlers[:] = [StandardLines(loggers)]
    root.setLevel(logging.WARNING)
    return loggers.get("moldau.registry")


command = ActionCommand(
    SUMMARIES["registry"],
    (Action("start", "serve the schemas of a cluster", _add, _start),),
)
