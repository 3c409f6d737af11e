"""`moldau streams run`: an app in this process, or in several that this one keeps alive."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import client_settings
from moldau.streams.commands.given_app import App, load_app

if TYPE_CHECKING:
    from moldau.link.telemetry.otlp import OtlpTarget
    from moldau.link.telemetry.traces import TraceSettings
    from moldau.runtime import Runtime
    from moldau.streams.worker.settings import AppSettings

# Other commands give up at once if no broker answers; an app waits, as all clients do.
_START: Final = "start.timeout.ms"
_WAIT_MS: Final = "30000"
_SETTINGS: Final = {
    "state": "state.dir",
    "listen": "queries.listen",
    "http_config": "queries.http.config",
    "metrics": "moldau.metrics.listener",
    "otlp": "moldau.metrics.otlp.endpoint",
    "traces": "moldau.traces.otlp.endpoint",
    "trace_ratio": "moldau.traces.ratio",
}
"""The settings that options of the command stand for."""


def run_app(arguments: Namespace, context: Context) -> int:
    """Run the app until a signal, and return the exit code."""
    from moldau.runtime.places import absolute_path
    from moldau.runtime.process import raise_open_files, tune_process
    from moldau.streams.running import checked, otlp_of, traces_of
    from moldau.streams.worker.addresses import listen_place, metrics_place
    from moldau.streams.worker.settings import EXACTLY_ONCE

    app = load_app(arguments.app, absolute_path("."))
    app.plan()  # report errors of the topology before anything else
    if arguments.engine == "spark":
        from moldau.streams.commands.spark_action import run_on_spark

        if (running := getattr(app, "running", None)) is not None:
            running.life.require_embedded()
        return run_on_spark(app, arguments, context)
    for name in ("master", "checkpoint"):
        if getattr(arguments, name) is not None:
            raise UsageError(f"--{name} is for --engine spark")
    given: dict[str, object] = dict(client_settings(arguments, context, {_START: _WAIT_MS}))
    given.pop("client.id", None)
    given.setdefault("processing.guarantee", getattr(app, "guarantee", EXACTLY_ONCE))
    for name, setting in _SETTINGS.items():
        if (value := getattr(arguments, name)) is not None:
            given[setting] = value
    if arguments.accept_changes:
        given["accept.topology.changes"] = "true"
    settings = checked(given)
    listen_place(settings, 0)
    metrics_place(settings, 0)
    pushed = traces_of(settings, context.environment), otlp_of(settings, context.environment)
    raise_open_files()
    if arguments.workers > 1 and arguments.worker is None:
        return _supervise(arguments, context)
    tune_process()
    return _work(arguments, context, app, settings, pushed)


def _work(
    arguments: Namespace,
    context: Context,
    app: App,
    settings: AppSettings,
    pushed: tuple[TraceSettings | None, OtlpTarget | None],
) -> int:
    from moldau.runtime.collecting import collecting
    from moldau.runtime.real import run
    from moldau.streams.commands.restore_bar import RestoreBar
    from moldau.streams.problems import WorkerStopped
    from moldau.streams.query.supervised import SupervisorLink
    from moldau.streams.running import WorkerSlot, run_plan, until_stopped
    from moldau.streams.supervisor.supervisor import ask_for_workers
    from moldau.streams.worker.reports import Reports

    index, plan = arguments.worker or 0, app.plan()
    running = getattr(app, "running", None)
    life = None if running is None else running.life
    reports = RestoreBar(context.err, life) if context.err.isatty() else Reports(life)

    async def main(runtime: Runtime) -> None:
        _log_to(runtime, arguments, context, reports.write_around(context.err.write))
        link = None
        if arguments.supervisor is not None:
            link = SupervisorLink(arguments.supervisor, ask_for_workers)
        place = WorkerSlot(index, reports, running, *pushed, supervisor=link)
        work = run_plan(plan, settings, runtime, place)
        if arguments.worker is None and not arguments.json:
            _announce(plan.app, context)
        await until_stopped(collecting(work))

    try:
        run(main, node=f"{plan.app}-{index}")
    except WorkerStopped as error:
        print(f"moldau: {error}", file=context.err)
        return Exit.STAYS_ENDED
    return Exit.DONE


def _supervise(arguments: Namespace, context: Context) -> int:
    from moldau.runtime.real import run
    from moldau.streams.running import until_stopped
    from moldau.streams.supervisor.supervisor import Supervisor

    async def main(runtime: Runtime) -> int:
        _log_to(runtime, arguments, context, context.err.write)
        name = runtime.random.randbytes(8).hex()

        def words(index: int) -> list[str]:
            own = ["--worker", str(index), "--supervisor", name]
            return [*_words(arguments, context), *own]

        supervisor = Supervisor(words, arguments.workers, runtime)
        await until_stopped(supervisor.run())
        return supervisor.code

    return run(main, node="supervisor")


def _words(arguments: Namespace, context: Context) -> list[str]:
    """Return the command line of a worker: that of the supervisor."""
    words = ["streams", "run", arguments.app, "--workers", str(arguments.workers)]
    if context.profile_name is not None:
        words += ["--profile", context.profile_name]
    for name in ("bootstrap", "command_config", *_SETTINGS, "log_level"):
        if (value := getattr(arguments, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    for each in arguments.client_settings:
        words += ["--set", each]
    given = (name for name in ("log_json", "debug", "accept_changes") if getattr(arguments, name))
    return [*words, *(f"--{name.replace('_', '-')}" for name in given)]


def _announce(app: str, context: Context) -> None:
    with suppress(BrokenPipeError):
        context.out.write(f"streams app {app} starts; Ctrl-C commits and stops it\n")
        context.out.flush()


def _log_to(
    runtime: Runtime, arguments: Namespace, context: Context, write: Callable[[str], object]
) -> None:
    """Write our log lines, and those of asyncio and other libraries, with `write`."""
    import logging

    from moldau.cli.log_format import event_lines
    from moldau.logging import Loggers, parse_level
    from moldau.logging.stdlib import StandardLines
    from moldau.records import tell_kernel

    level = parse_level(arguments.log_level)
    loggers = Loggers(runtime.clock, write, json=arguments.log_json, level=level)
    if arguments.worker is None:  # else the supervisor has said so
        tell_kernel(loggers.get("moldau.records").warn)
    root = logging.getLogger()
    root.handlers[:] = [StandardLines(loggers), *event_lines(context, runtime.files)]
    root.setLevel(logging.WARNING)
    logging.getLogger("moldau.streams").setLevel(logging.INFO)
