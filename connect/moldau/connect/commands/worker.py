"""`moldau connect run` and `moldau connect start`: a worker in this process, until a signal.

Standard output shows only what a person needs to reach the worker; the log goes to standard error.
With `--workers N` this process supervises N workers of one group, at ports in a row: one that ends
by itself starts again, and all end with this process.
The first SIGTERM, SIGINT or SIGHUP stops connectors in order, the second one at once.
"""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.log_format import add_log_format
from moldau.cli.otlp_options import add_otlp_option, add_trace_options

if TYPE_CHECKING:
    from moldau.connect.server import ConnectWorker
    from moldau.logging import Loggers
    from moldau.runtime import Runtime
    from moldau.runtime.files import Files

_LEVELS = ("trace", "debug", "info", "warn", "error", "fatal")
DEFAULT_LISTEN = "127.0.0.1:8083"
WORKERS_MAX: Final = 1_000
_AUTO: Final = "auto"
_PASSED: Final = ("bootstrap", "config", "otlp", "traces", "trace_ratio", "log_level")


def configure(actions: Any) -> None:
    """Add both actions to the parser."""
    run = actions.add_parser(
        "run",
        help="run connectors from files in one worker",
        description="Runs the connectors of these files in one worker of its own (Kafka's "
        "connect-standalone). Offsets of sources are kept in the state directory, or with "
        "exactly.once.source.support=enabled in a topic.",
    )
    run.add_argument("files", nargs="+", metavar="FILE", help="a connector as JSON or properties")
    run.add_argument(
        "--state",
        required=True,
        metavar="DIR",
        help="where offsets are kept, unless exactly-once sources have them in a topic",
    )
    run.add_argument("--listen", metavar="HOST:PORT", help="also serve the REST API")
    _add_shared(run)
    run.set_defaults(act=run_standalone)
    start = actions.add_parser(
        "start",
        help="run a worker of a cluster of workers",
        description="Runs a worker that keeps configs, offsets and statuses in topics, and shares "
        "connectors with the other workers of its group (Kafka's connect-distributed).",
    )
    start.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help=f"where the REST API listens; default: listeners, or {DEFAULT_LISTEN}",
    )
    start.add_argument(
        "--workers",
        type=workers,
        default=1,
        metavar="N",
        help="worker processes, each at the next port (1); auto takes the cores of the machine, "
        "but one in four",
    )
    _add_shared(start)
    start.set_defaults(act=run_distributed)


def add_worker_settings(parser: ArgumentParser) -> None:
    """Add the options `--config` and `--set`."""
    parser.add_argument("-c", "--config", metavar="FILE", help="the worker's properties")
    parser.add_argument(
        "--set", action="append", default=[], metavar="K=V", help="one setting of the worker"
    )


def _add_shared(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-b", "--bootstrap", metavar="HOST:PORT", help="brokers; else bootstrap.servers"
    )
    add_worker_settings(parser)
    add_otlp_option(parser)
    add_trace_options(parser)
    parser.add_argument("--log-level", choices=_LEVELS, default="info", help="default: info")
    add_log_format(parser)
    parser.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)


def run_standalone(arguments: Namespace, context: Context) -> int:
    """Run a standalone worker until a signal."""
    return _run(arguments, context, is_distributed=False)


def run_distributed(arguments: Namespace, context: Context) -> int:
    """Run a distributed worker, or several, until a signal."""
    if arguments.workers > 1:
        return _run_several(arguments, context)
    return _run(arguments, context, is_distributed=True)


def _run_several(arguments: Namespace, context: Context) -> int:
    from moldau.runtime.node_processes import NodeProcess
    from moldau.runtime.real import run
    from moldau.runtime.real_files import RealFiles

    settings = settings_given(arguments, context, RealFiles())
    listen = _listen(arguments.listen, settings, is_distributed=True)
    assert listen is not None
    if listen[1] + arguments.workers > 65_536:
        raise UsageError(f"--listen: there are no {arguments.workers} ports from {listen[1]} on")
    if settings.get("rest.advertised.port"):
        raise UsageError("--workers: each worker has a port of its own: rest.advertised.port names "
                         "one for all; take it out, or start the workers one by one")  # fmt: skip

    def launch(index: int) -> NodeProcess:
        words = command_of(arguments, context, listen, index)
        return NodeProcess(words, None, is_leashed=True, shares_output=True)

    async def main(runtime: Runtime) -> int:
        from moldau.runtime.signals import until_signal
        from moldau.runtime.supervised import ProcessEnd, SupervisedGroup

        log = make_loggers(runtime, arguments, context).get("moldau.connect.workers")

        def report(index: int, end: ProcessEnd) -> None:
            what = "a worker has ended and starts again"
            if end.pause_ms is None:
                what = "a worker cannot run"
            log.error(what, worker=index, end=end.how, in_ms=end.pause_ms)

        launches = [partial(launch, index) for index in range(arguments.workers)]
        group = SupervisedGroup(launches, runtime, report)
        await until_signal(group.run())
        if group.killed:
            log.error("workers did not stop in time and were killed", workers=group.killed)
        if group.failure is None:
            return Exit.DONE
        return Exit.MISUSED if group.failure == Exit.MISUSED else Exit.FAILED

    return run(main, node="connect")


def _run(arguments: Namespace, context: Context, *, is_distributed: bool) -> int:
    from moldau.connect.commands.files import load_connectors
    from moldau.connect.server import WorkerLocation
    from moldau.connect.task.file_places import FILE_DIRECTORIES, with_own_files
    from moldau.runtime.real import run
    from moldau.runtime.real_files import RealFiles

    files = RealFiles()
    settings = settings_given(arguments, context, files)
    listen = _listen(arguments.listen, settings, is_distributed=is_distributed)
    state = None if is_distributed else absolute(arguments.state)
    location = WorkerLocation(listen, state)
    connectors = {} if is_distributed else load_connectors(arguments.files)
    if not is_distributed:
        settings[FILE_DIRECTORIES] = with_own_files(settings, connectors.values())

    async def main(runtime: Runtime) -> None:
        from moldau.connect.server import ConnectWorker
        from moldau.records import tell_kernel
        from moldau.runtime.signals import until_signal

        loggers = make_loggers(runtime, arguments, context)
        tell_kernel(loggers.get("moldau.records").warn)
        worker = ConnectWorker(runtime, settings, location, loggers)
        await until_signal(_serve(worker, connectors, context))

    run(main, node="connect")
    return Exit.DONE


def absolute(path: str) -> str:
    """Return the absolute path, which the runtime's files need."""
    from moldau.runtime.places import absolute_path

    return absolute_path(path)


async def _serve(
    worker: ConnectWorker, connectors: dict[str, dict[str, str | None]], context: Context
) -> None:
    from moldau.connect.herder.herder import forever

    try:
        await worker.start()
        for name, config in connectors.items():
            await worker.operations.put_config(name, config, may_replace=True)
        _announce(worker, connectors, context)
        await forever()
    finally:
        await worker.aclose()


def _announce(worker: ConnectWorker, connectors: dict[str, Any], context: Context) -> None:
    from moldau.plugins.layers import platform_version

    lines = [f"moldau connect {platform_version()} is up"]
    lines.append(f"  bootstrap   {worker.settings['bootstrap.servers']}")
    if worker.address is not None:
        lines.append(f"  rest        {worker.protection.scheme}://{worker.herder.worker_id}")
    if worker.is_distributed:
        lines.append(f"  group       {worker.settings['group.id']}")
    else:
        lines.append(f"  connectors  {', '.join(connectors)}")
    lines.append("Ctrl-C stops it.")
    with suppress(BrokenPipeError):
        context.out.write("\n".join(lines) + "\n")
        context.out.flush()


def make_loggers(runtime: Runtime, arguments: Namespace, context: Context) -> Loggers:
    """Return loggers that write to standard error, also the lines of other libraries."""
    import logging

    from moldau.logging import Loggers, parse_level
    from moldau.logging.stdlib import StandardLines

    level = parse_level(arguments.log_level)
    loggers = Loggers(runtime.clock, context.err.write, json=arguments.log_json, level=level)
    root = logging.getLogger()
    root.handlers[:] = [StandardLines(loggers)]
    root.setLevel(logging.WARNING)
    return loggers


# Arguments


def workers(text: str) -> int:
    """Return a number of workers, or for `auto` most cores. Raise ArgumentTypeError."""
    if text == _AUTO:
        from moldau.runtime.process_figures import most_cores

        return most_cores()
    from moldau.cli.numbers import whole

    try:
        return whole(1, WORKERS_MAX)(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, and not {_AUTO}") from None


def command_of(
    arguments: Namespace, context: Context, listen: tuple[str, int], index: int
) -> list[str]:
    """Return the command line of one worker: that of the supervisor, with an address of its own. A
    port that the system chooses is another one for each worker by itself."""
    host, port = listen
    where = f"[{host}]" if ":" in host else host
    words = ["connect", "start", "--listen", f"{where}:{port + index if port else 0}"]
    if context.profile_name is not None:
        words += ["--profile", context.profile_name]
    for name in _PASSED:
        if (value := getattr(arguments, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    for each in arguments.set:
        words += ["--set", each]
    return [*words, *(f"--{name.replace('_', '-')}" for name in ("log_json", "debug")
                      if getattr(arguments, name, False))]  # fmt: skip


def settings_given(arguments: Namespace, context: Context, files: Files) -> dict[str, str]:
    """Return the settings of the file, then of --bootstrap, then of --set: the later one wins."""
    from moldau.cli.commands.cluster_connection import profile_settings
    from moldau.config.properties import parse_properties
    from moldau.connect.rest.protection import JAAS_FILE, jaas_file_of
    from moldau.connect.task.spans import ENDPOINT, RATIO
    from moldau.link.telemetry.metrics import SETTING

    found = profile_settings(context, arguments.bootstrap, arguments.config)
    if arguments.config is not None:
        text = files.read_text(absolute(arguments.config))
        found.update({each.key: each.value for each in parse_properties(text, arguments.config)})
    if arguments.bootstrap is not None:
        found["bootstrap.servers"] = arguments.bootstrap
    elif (
        "MOLDAU_BOOTSTRAP" in context.environment
        and context.profile_name is None
        and (arguments.config is None or "bootstrap.servers" not in found)
    ):
        found["bootstrap.servers"] = context.environment["MOLDAU_BOOTSTRAP"]
    jaas_file = jaas_file_of(context.environment)
    if jaas_file is not None:
        found.setdefault(JAAS_FILE, jaas_file)
    for name, option in ((SETTING, "otlp"), (ENDPOINT, "traces"), (RATIO, "trace_ratio")):
        if getattr(arguments, option, None) is not None:
            found[name] = str(getattr(arguments, option))
    for each in arguments.set:
        name, equals, value = each.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set takes NAME=VALUE, not {each}")
        found[name.strip()] = value
    return found


def _listen(
    given: str | None, settings: dict[str, str], *, is_distributed: bool
) -> tuple[str, int] | None:
    listener = settings.get("listeners", "").split(",")[0].strip()
    text = given or listener
    if given and listener.lower().startswith("https:") and "://" not in given:
        settings["listeners"] = f"https://{given}"
    elif given:
        settings["listeners"] = given
    if not text:
        if not is_distributed:
            return None
        text = DEFAULT_LISTEN
    return parse_address(text)


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of the REST API."""
    scheme, found, place = text.partition("://")
    if found and scheme.lower() not in ("http", "https"):
        raise UsageError(f"the REST API speaks http and https, not {scheme}")
    host, _, port = (place if found else text).rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"the REST API's address is HOST:PORT, not {text}")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - as Kafka Connect reads it
