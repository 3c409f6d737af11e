"""`moldau console`: the pages of a cluster in a browser."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from moldau.cli.addresses import host_and_port
from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import add_connection_arguments, profile_beside
from moldau.cli.commands.registry_place import (
    URL,
    VARIABLE,
    check_registry,
    registry_place,
)
from moldau.cli.summaries import SUMMARIES
from moldau.console.options import (
    AUDIT,
    CLUSTER,
    VisitorOptions,
    add_visitor_options,
    check_options,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moldau.console.options import Visitors
    from moldau.link.http.protection import HttpProtection
    from moldau.runtime import Runtime

LISTEN: Final = "127.0.0.1:8080"
CONNECT_VARIABLE: Final = "MOLDAU_CONNECT"
ALL: Final = "all"


class ConsoleCommand:
    """The command `moldau console`. It imports nothing of the console before it runs."""

    summary = SUMMARIES["console"]

    def configure(self, parser: ArgumentParser, /) -> None:
        add_connection_arguments(parser)
        parser.add_argument(
            "--listen",
            default=LISTEN,
            metavar="HOST:PORT",
            help=f"where the pages are served; default: {LISTEN}",
        )
        parser.add_argument(
            "--clusters",
            metavar="PROFILE,...",
            help="show the clusters of these profiles, or of `all`, in one console; each page has "
            "a switch",
        )
        parser.add_argument(
            "--admin",
            action="store_true",
            help="let visitors change the cluster; each change gives a line on standard error; "
            "default: the pages are read-only",
        )
        parser.add_argument(
            "--registry",
            metavar="URL",
            help=f"the Schema Registry that records are decoded by; else ${VARIABLE}, else "
            "the profile's, else none",
        )
        parser.add_argument(
            "--connect",
            metavar="URL",
            help="a Connect worker's REST API, for the pages of connectors; else "
            f"${CONNECT_VARIABLE}, else the profile's, else none",
        )
        parser.add_argument(
            "--streams",
            action="append",
            default=[],
            metavar="NAME=URL",
            help="a Streams app that runs with --listen, for the pages of apps; may be repeated",
        )
        parser.add_argument(
            "--pipeline",
            action="append",
            default=[],
            metavar="NAME=URL",
            help="a pipeline that runs with --status, for the pages of pipelines; may be repeated",
        )
        parser.add_argument(
            "--node-metrics",
            action="append",
            default=[],
            metavar="URL",
            help="where a node was started with --metrics, for charts of the last 15 minutes; may "
            "be repeated; default: the nodes' own settings say it, where no login is asked for",
        )
        parser.add_argument(
            "--prometheus",
            metavar="URL",
            help="a Prometheus that scrapes the nodes, for charts of longer ranges; "
            "?LABEL=VALUE at its end chooses series",
        )
        add_visitor_options(parser)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        from moldau.runtime.real import run

        check_installed()
        host, port = host_and_port(arguments.listen, "--listen")
        clusters = {}
        for name, (given, beside) in _clusters(arguments, context).items():
            options = VisitorOptions.of_arguments(arguments, name)
            check_options(options)
            clusters[name] = options, _shown(given, beside)

        async def main(runtime: Runtime) -> None:
            from moldau.runtime.signals import until_signal

            visited = {
                name: (shown, _visitors(runtime, options, context, host, warns=not number))
                for number, (name, (options, shown)) in enumerate(clusters.items())
            }
            await until_signal(_serve(runtime, visited, (host, port), context))

        run(main, node="console")
        return Exit.DONE


def _clusters(arguments: Namespace, context: Context) -> dict[str, tuple[Namespace, Context]]:
    """Return the clusters by their names, with what is given of each. One alone has no name."""
    if arguments.clusters is None:
        return {"": (arguments, context)}
    from moldau.cli.profiles import load, path_of

    for option, value in (
        ("--bootstrap", arguments.bootstrap),
        ("--command-config", arguments.command_config),
        ("--registry", arguments.registry),
        ("--connect", arguments.connect),
        ("--streams", arguments.streams),
        ("--pipeline", arguments.pipeline),
        ("--node-metrics", arguments.node_metrics),
        ("--profile", context.profile_name),
    ):
        if value:
            raise UsageError(f"{option} is of one cluster, and --clusters names profiles")
    if arguments.prometheus and CLUSTER not in arguments.prometheus:
        raise UsageError(
            f"--prometheus with --clusters needs {CLUSTER} in it, which stands for the profile, "
            f"such as http://HOST:9090?job={CLUSTER}"
        )
    path = path_of(context.environment)
    profiles = load(path) if path is not None else None
    known = {} if profiles is None else profiles.by_name
    names = list(dict.fromkeys(filter(None, arguments.clusters.split(","))))
    names = sorted(known) if names == [ALL] else names
    if not names:
        raise UsageError("--clusters names no profile; `moldau profile create` makes one")
    found = {}
    for name in names:
        given = Namespace(**vars(arguments))
        if arguments.prometheus:
            given.prometheus = arguments.prometheus.replace(CLUSTER, name)
        beside = replace(context, profile_name=name)
        _ = beside.profile  # raises if there is no such profile
        found[name] = given, beside
    return found


def _shown(arguments: Namespace, context: Context) -> dict[str, str]:
    """Return the settings of a cluster and what is beside it."""
    from moldau.cli.commands.cluster_connection import client_settings
    from moldau.console.apis.connect import CONNECT

    settings = client_settings(arguments, context)
    named = (arguments.bootstrap, arguments.command_config)
    registry = registry_place(arguments.registry, context, *named)
    if registry is not None:
        check_registry(registry)
    shown = {**settings, **({} if registry is None else {URL: registry.url})}
    connect = _connect(arguments, context)
    if connect is not None:
        shown[CONNECT] = connect
    return shown | _beside(arguments)


def _connect(arguments: Namespace, context: Context) -> str | None:
    """Return the address of the Connect worker: that of the option, the environment or the profile,
    which counts where it also names the cluster."""
    if arguments.connect is not None:
        return str(arguments.connect)
    variable = context.environment.get(CONNECT_VARIABLE)
    if variable and context.profile_name is None:
        return variable
    return profile_beside(context, arguments.bootstrap, arguments.command_config).connect


def _beside(arguments: Namespace) -> dict[str, str]:
    """Return the settings for what is beside the cluster. Raise UsageError."""
    from moldau.console.apis.nodes import NODES
    from moldau.console.apis.prometheus import PROMETHEUS, check_prometheus
    from moldau.console.apis.services import PIPELINES, STREAMS, named
    from moldau.errors import ConfigError
    from moldau.runtime.http_client import base_url

    for url in arguments.node_metrics:
        try:
            base_url(url)
        except ValueError as error:
            raise UsageError(f"--node-metrics: {error}") from None
    try:
        if arguments.prometheus is not None:
            check_prometheus(arguments.prometheus)
        named("--streams", arguments.streams)
        named("--pipeline", arguments.pipeline)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    given = {NODES: arguments.node_metrics, STREAMS: arguments.streams}
    found = {name: " ".join(words) for name, words in given.items()}
    found[PIPELINES] = " ".join(arguments.pipeline)
    return found | ({} if arguments.prometheus is None else {PROMETHEUS: arguments.prometheus})


def _visitors(
    runtime: Runtime, options: VisitorOptions, context: Context, host: str, *, warns: bool
) -> Visitors:
    """Return what visitors must show, and what they may do. Raise ConfigError."""
    from moldau.console.options import visitors_of
    from moldau.logging import Loggers

    log = Loggers(runtime.clock, context.err.write).get(AUDIT)
    visitors = visitors_of(options, runtime, host, log)
    by, cure = visitors.protection, options.cure
    warning = open_warning(by, host, is_admin=options.is_admin, cure=cure)
    if warns and visitors.client is None and warning is not None:
        context.err.write(f"moldau: {warning}\n")
    return visitors


def open_warning(by: HttpProtection, host: str, *, is_admin: bool, cure: str) -> str | None:
    """Return a warning if the console is open to the network; `cure` is what protects it."""
    from moldau.link.http.protection import open_to_all

    if not open_to_all(by, host):
        return None
    does = "change the cluster" if is_admin else "read its messages"
    return f"the console has no login: {host} lets every visitor {does}; {cure} protects it"


async def _serve(
    runtime: Runtime,
    clusters: Mapping[str, tuple[dict[str, str], Visitors]],
    listen: tuple[str, int],
    context: Context,
) -> None:
    from moldau.console.server import ConsoleCluster, connection_of, serving_all
    from moldau.logging import Loggers
    from moldau.runtime.signals import forever

    log = Loggers(runtime.clock, context.err.write).get("moldau.console.logins")
    shown = {
        name: ConsoleCluster(
            connection_of(runtime, settings), each.access, each.provider(runtime, log)
        )
        for name, (settings, each) in clusters.items()
    }
    _, visitors = next(iter(clusters.values()))
    async with serving_all(runtime, shown, listen, visitors.protection) as address:
        with suppress(BrokenPipeError):
            context.out.write(f"moldau console is up at {address}\nCtrl-C stops it.\n")
            context.out.flush()
        await forever()


def check_installed() -> None:
    """Raise ConfigError if a package of the extra `console` is missing."""
    from importlib.util import find_spec

    from moldau.errors import ConfigError
    from moldau.plugins.extras import install_command

    for name in ("jinja2", "starlette", "uvicorn"):
        if find_spec(name) is None:
            raise ConfigError(f"the console needs {name}: {install_command('console')}")


command = ConsoleCommand()
