"""The command `moldau pipeline`: lint, plan, draw, run, status, reset and down.

Importing this module is cheap.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import BOOTSTRAP_VARIABLE, PROFILE, add_action_arguments
from moldau.cli.numbers import whole
from moldau.pipeline.summaries import SUMMARIES

if TYPE_CHECKING:
    from moldau.pipeline.data_directory import DataDirectory
    from moldau.pipeline.reading import PipelineFile

FILE: Final = "pipeline.yaml"
_PORT: Final = whole(1, 65_535)
_SECONDS: Final = whole(0, 86_400)
_IDLE_S: Final = 10
_PAUSE_S: Final = 1.0


class PipelineCommand:
    """The command `moldau pipeline`. An action imports what it needs only when it runs."""

    summary = SUMMARIES["pipeline"]

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        lint = _action(actions, "lint", "find every mistake in the file", _lint)
        lint.add_argument("--json", action="store_true", help="write JSON")
        for each, what in (("--bootstrap", "HOST:PORT"), ("--command-config", "FILE")):
            lint.add_argument(
                each, metavar=what, help="with a cluster: look at the keys of the inputs of apps"
            )
        plan = _action(actions, "plan", "show what `run` would create, change and start", _plan)
        _add_target(plan)
        _add_select(plan)
        draw = _action(actions, "draw", "draw the pipeline as text, or as SVG", _draw)
        _add_select(draw)
        draw.add_argument("--svg", action="store_true", help="write SVG to standard output")
        run = _action(
            actions, "run", "run the pipeline until Ctrl-C, which stops it in order", _run
        )
        _add_target(run)
        _add_select(run)
        run.add_argument(
            "--once",
            action="store_true",
            help="stop when all records are processed and no topic has grown for --idle seconds",
        )
        run.add_argument(
            "--status", metavar="HOST:PORT", help="serve the state of every part there, as JSON"
        )
        run.add_argument(
            "--http-config",
            metavar="FILE",
            help="settings that protect --status (docs/security.md)",
        )
        run.add_argument("--idle", type=_SECONDS, metavar="SECONDS", help="for --once; default: 10")
        run.add_argument("--port", type=_PORT, help="the broker's port; default: a free one")
        run.add_argument("--rest-port", type=_PORT, help="the worker's port; default: a free one")
        status = _action(
            actions, "status", "show every part's state, lag, rate and last error", _status
        )
        _add_target(status)
        _add_select(status)
        status.add_argument("--watch", action="store_true", help="repeat every second until Ctrl-C")
        status.add_argument(
            "--svg", action="store_true", help="write the picture of the pipeline with its numbers"
        )
        reset = _action(
            actions, "reset", "let an app or a sink read from the beginning at the next run", _reset
        )
        reset.add_argument("part", metavar="PART", help="the name of the app or sink")
        _add_target(reset)
        down = _action(actions, "down", "stop the pipeline, and keep its data", _down)
        _add_target(down)
        down.add_argument("--delete", action="store_true", help="also delete what `run` made")
        down.add_argument("--yes", action="store_true", help="delete without a question")

    def run(self, arguments: Namespace, context: Context, /) -> int:
        return int(arguments.act(arguments, context))


def _action(actions: Any, name: str, text: str, act: Any) -> ArgumentParser:
    parser: ArgumentParser = actions.add_parser(name, help=text, description=text.capitalize())
    parser.add_argument("file", nargs="?", default=FILE, metavar="FILE", help=f"default: {FILE}")
    parser.add_argument(
        "--var",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a variable of the file",
    )
    parser.add_argument(
        "--target", metavar="NAME", help="a target of the file, such as prod; its values win"
    )
    parser.set_defaults(act=act)
    return parser


def _add_select(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="PART",
        help="only this part of the file; may be repeated",
    )


def _add_target(parser: ArgumentParser) -> None:
    add_action_arguments(parser)
    parser.add_argument(
        "--own-broker",
        action="store_true",
        help=f"the pipeline's own broker, even if ${BOOTSTRAP_VARIABLE} names a cluster; it is the "
        "default if nothing names one",
    )
    parser.add_argument("--connect", metavar="URL", help="use a Connect worker that already runs")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="the directory of state; default: .moldau/NAME or .moldau/NAME@TARGET beside the file",
    )


# Actions that only read the file and the cluster.


def _read(arguments: Namespace, *, checks_connectors: bool = True) -> tuple[PipelineFile, str]:
    """Read the file. Return the reading and the directory of the file."""
    from dataclasses import replace

    from moldau.cli.commands.cluster_connection import assignments
    from moldau.pipeline.app_plans import explain_apps
    from moldau.pipeline.pipeline import selected
    from moldau.pipeline.queries import check_sql_with_spark
    from moldau.pipeline.reading import Inputs, read_pipeline
    from moldau.pipeline.shapes import registered_shape
    from moldau.runtime.files import parent_path
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles

    files = RealFiles()
    path = absolute_path(arguments.file)
    directory = parent_path(path)
    inputs = Inputs(
        directory,
        files.read_text,
        lambda apps, counts: explain_apps(apps, counts, directory, _looked_on(arguments)),
        assignments(arguments.var, "variable"),
        checks_connectors,
        check_sql_with_spark if arguments.act is _lint else None,
        registered_shape,
        getattr(arguments, "connect", None) is None,
        arguments.target,
    )
    reading = read_pipeline(files.read_text(path), arguments.file, inputs)
    if chosen := getattr(arguments, "select", []):
        reading = replace(reading, pipeline=selected(reading.pipeline, chosen))
    return reading, directory


def _looked_on(arguments: Namespace) -> list[str]:
    """Return the options of the cluster on which `lint` looks at keys; none if it is not given."""
    if arguments.act is not _lint or arguments.bootstrap is None:
        return []
    config = arguments.command_config
    return ["--bootstrap", arguments.bootstrap, *(["--command-config", config] if config else [])]


def _read_valid(arguments: Namespace, context: Context) -> tuple[PipelineFile, str]:
    """Read the file, as `_read`, and print its problems. Raise UsageError if one is an error."""
    reading, directory = _read(arguments)
    for each in reading.problems:
        context.err.write(f"{reading.files.format(each)}\n")
    if not reading.is_valid:
        raise UsageError(f"{arguments.file} has errors, so nothing was done: correct them")
    return reading, directory


def _data_directory(arguments: Namespace, reading: PipelineFile, directory: str) -> DataDirectory:
    from moldau.pipeline.data_directory import DataDirectory
    from moldau.runtime.places import absolute_path
    from moldau.runtime.real_files import RealFiles

    given = arguments.data
    name = reading.pipeline.name
    if arguments.target is not None:
        name = f"{name}@{arguments.target}"
    default = f"{directory}/.moldau/{name}"
    return DataDirectory(RealFiles(), default if given is None else absolute_path(given))


def _looked_at(arguments: Namespace, reading: PipelineFile, directory: str) -> DataDirectory:
    """Return the directory of the pipeline that runs: its own, or the one in which `moldau dev`
    runs it."""
    from moldau.dev.project import DIRECTORY, PIPELINE
    from moldau.pipeline.data_directory import DataDirectory

    data = _data_directory(arguments, reading, directory)
    if arguments.data is not None or data.is_running():
        return data
    dev = DataDirectory(data.files, f"{directory}/{DIRECTORY}/{PIPELINE}")
    runs_here = dev.is_running() and dev.load().name == reading.pipeline.name
    return dev if runs_here and arguments.target is None else data


def _client_settings(arguments: Namespace, context: Context) -> dict[str, str]:
    """Return the settings of clients, as `run` uses them.

    They have `bootstrap.servers` if the command line, the file of `--command-config` or the
    environment names a cluster, and `--own-broker` is not given."""
    from moldau.cli.commands.cluster_connection import client_settings

    if arguments.own_broker and arguments.bootstrap is not None:
        raise UsageError("--own-broker and --bootstrap contradict each other: give one of them")
    found = client_settings(arguments, context, {})
    given = dict(found)
    if (
        arguments.own_broker
        or "bootstrap.servers" not in found.sources
        or not given["bootstrap.servers"].strip()
    ):
        del given["bootstrap.servers"]
    return given


def _named_by(arguments: Namespace, context: Context) -> str:
    """Return what names the cluster: an option, a variable, a profile or a file."""
    from moldau.cli.commands.cluster_connection import client_settings

    return client_settings(arguments, context, {}).sources["bootstrap.servers"].where


def _is_from_environment(arguments: Namespace, context: Context) -> bool:
    """Whether it is the environment or a profile that names the cluster."""
    from moldau.cli.commands.cluster_connection import client_settings

    source = client_settings(arguments, context, {}).sources.get("bootstrap.servers")
    return source is not None and source.where.startswith((BOOTSTRAP_VARIABLE, f"{PROFILE} "))


def _settings_of_last_run(
    arguments: Namespace, context: Context, data: DataDirectory
) -> dict[str, str]:
    """Return the settings of clients that ask about a `run` that is alive, or was the last one.

    The environment's cluster does not count if `run` is alive, which has a cluster already, or if
    it had its own broker."""
    client = _client_settings(arguments, context)
    state = data.load()
    had_own_broker = bool(state.cluster) and state.is_own_broker
    if (had_own_broker or data.is_running()) and _is_from_environment(arguments, context):
        client.pop("bootstrap.servers", None)
    return client


def _lint(arguments: Namespace, context: Context) -> int:
    from moldau.cli.output import write_json

    reading, _ = _read(arguments)
    if arguments.json:
        write_json(
            context.out,
            [
                {"file": file, "line": line, "kind": each.kind, "text": each.text}
                for each in reading.problems
                for file, line in [reading.files.at(each.line)]
            ],
        )
    else:
        for each in reading.problems:
            context.out.write(f"{reading.files.format(each)}\n")
        if not reading.problems:
            context.out.write(f"{arguments.file}: no problems\n")
    return Exit.DONE if reading.is_valid else Exit.FAILED


def _plan(arguments: Namespace, context: Context) -> int:
    from contextlib import nullcontext
    from dataclasses import replace

    from moldau.cli.output import write_json
    from moldau.pipeline.cluster import Cluster
    from moldau.pipeline.data_directory import OWN_BROKER
    from moldau.pipeline.last_run import LastRun
    from moldau.pipeline.plan import Facts, plan, plan_text
    from moldau.pipeline.worker import ConnectApi, worker_url

    reading, directory = _read_valid(arguments, context)
    data = _looked_at(arguments, reading, directory)
    state, url, is_running = data.load(), arguments.connect, data.is_running()
    last_run = LastRun.load(data)
    # Without a `run` that is alive, this is the plan of the next one.
    if is_running:
        client = _settings_of_last_run(arguments, context, data)
    else:
        client = _client_settings(arguments, context)
    is_live = "bootstrap.servers" not in client and is_running
    if is_live:
        client["bootstrap.servers"], url = state.bootstrap, url or state.rest
    if "bootstrap.servers" in client:
        with Cluster(client) as cluster, ConnectApi(url) if url else nullcontext() as connect:
            if not is_live:
                state = state.at_start(cluster.id(), worker_url(url) if url else None)
            facts = cluster.facts(reading.pipeline, connect, state)
    else:
        state = state.at_start(OWN_BROKER, None)
        facts = Facts(made=frozenset(state.connectors), is_own_broker=True)
        if last_run is not None and last_run.cluster == OWN_BROKER:
            facts = replace(facts, topics=last_run.topics, connectors=last_run.connectors)
            context.err.write(
                "the pipeline's own broker does not run: this compares with the last run\n"
            )
        elif data.files.exists(data.path("broker")):
            context.err.write(
                "the pipeline's own broker does not run, and no run has written down its topics "
                "and connectors: this is the plan of a new one\n"
            )
    if last_run is not None and last_run.cluster == state.cluster:
        facts = replace(
            facts,
            topologies=last_run.topologies,
            engines=last_run.engines,
            codes=last_run.codes,
            jobs=last_run.jobs,
        )
    found = plan(reading.pipeline, facts)
    if arguments.json:
        write_json(context.out, found.to_json())
    else:
        context.out.write(plan_text(found))
    return Exit.FAILED if found.refusals else Exit.DONE


def _draw(arguments: Namespace, context: Context) -> int:
    from moldau.pipeline.picture import pipeline_svg, pipeline_text

    reading, _ = _read(arguments)
    for each in reading.problems:
        context.err.write(f"{reading.files.format(each)}\n")
    draw = pipeline_svg if arguments.svg else pipeline_text
    context.out.write(draw(reading.pipeline))
    return Exit.DONE


# Actions on a running pipeline.


def _run(arguments: Namespace, context: Context) -> int:
    from moldau.pipeline.publishing import StatusServer, status_address
    from moldau.pipeline.running import PipelineRun, Target
    from moldau.pipeline.settled import IdleWatch
    from moldau.pipeline.status_reader import StatusReader
    from moldau.records import tell_kernel
    from moldau.runtime.signals import interrupted_by_sigterm

    if arguments.idle is not None and not arguments.once:
        raise UsageError("--idle is for --once: add --once")
    address = status_address(arguments.status, arguments.http_config)
    client = _client_settings(arguments, context)
    bootstrap = client.get("bootstrap.servers")
    if arguments.connect is not None and bootstrap is None:
        raise UsageError("--connect needs --bootstrap: give the cluster that the worker belongs to")
    if bootstrap is not None and _is_from_environment(arguments, context):
        context.out.write(
            f"cluster    {bootstrap} ({_named_by(arguments, context)}; --own-broker starts one "
            "instead)\n"
        )
    reading, directory = _read_valid(arguments, context)
    data = _data_directory(arguments, reading, directory)

    def report(text: str) -> None:
        context.out.write(f"{text}\n")
        context.out.flush()

    tell_kernel(lambda notice: context.err.write(f"moldau: {notice}\n"))
    settled = None
    if arguments.once:
        settled = IdleWatch(_IDLE_S if arguments.idle is None else arguments.idle)
    data.prepare()
    lock = data.lock()
    target = Target(bootstrap, arguments.connect, client, arguments.port, arguments.rest_port)
    run = PipelineRun(reading.pipeline, data, directory, target, report)
    reader = StatusReader(reading.pipeline, data, client, arguments.connect)
    shown = StatusServer(reading.pipeline, reader)
    try:
        if address is not None:
            report(f"status     {shown.start(address)}")
        with interrupted_by_sigterm():
            try:
                run.start()
                report(f"pipeline {reading.pipeline.name} runs; Ctrl-C stops it in order")
                run.watch(settled)
                report("all records are processed")
            except KeyboardInterrupt:
                report("")
    finally:
        run.stop()
        shown.close()
        lock.release()
    report(f"stopped; its data are in {data.directory}")
    return Exit.DONE


def _status(arguments: Namespace, context: Context) -> int:
    from moldau.cli.output import write_json, write_table
    from moldau.pipeline.picture import pipeline_svg
    from moldau.pipeline.status import HEADER, HEALTHY, status_rows
    from moldau.pipeline.status_reader import StatusReader
    from moldau.runtime.node_processes import pause_s

    if arguments.svg and (arguments.watch or arguments.json):
        raise UsageError("--svg writes one picture: leave --watch and --json out")
    reading, directory = _read(arguments, checks_connectors=False)
    data = _looked_at(arguments, reading, directory)
    client = _settings_of_last_run(arguments, context, data)
    reader = StatusReader(reading.pipeline, data, client, arguments.connect)
    try:
        before = reader.read()
        while True:
            pause_s(_PAUSE_S)
            now = reader.read()
            rows = status_rows(reading.pipeline, now, before)
            if arguments.svg:
                records = reader.record_counts()
                context.out.write(pipeline_svg(reading.pipeline, rows, records))
            elif arguments.json:
                write_json(context.out, [each.to_json() for each in rows])
            else:
                if arguments.watch and context.is_terminal:
                    context.out.write("\x1b[2J\x1b[H")
                write_table(context.out, HEADER, [each.cells() for each in rows])
                context.out.flush()
            if not arguments.watch:
                return Exit.DONE if all(each.state in HEALTHY for each in rows) else Exit.FAILED
            before = now
    finally:
        reader.close()


def _reset(arguments: Namespace, context: Context) -> int:
    from moldau.pipeline.removal import own_broker, reset_part, resettable

    reading, directory = _read(arguments, checks_connectors=False)
    if not any(each.name == arguments.part for each in reading.pipeline.writers):
        _read_valid(arguments, context)  # a mistake in the file may hide the part
    part = resettable(reading.pipeline, arguments.part)
    data = _data_directory(arguments, reading, directory)
    client = _settings_of_last_run(arguments, context, data)
    data.prepare()
    lock = data.lock()

    def report(text: str) -> None:
        context.out.write(f"{text}\n")

    try:
        if "bootstrap.servers" in client:
            problems = reset_part(part, data, client, directory, report)
        else:
            with own_broker(reading.pipeline, data, directory, report) as client:
                problems = reset_part(part, data, client, directory, report)
    finally:
        lock.release()
    for each in problems:
        context.err.write(f"{each}\n")
    return Exit.FAILED if problems else Exit.DONE


def _down(arguments: Namespace, context: Context) -> int:
    from moldau.pipeline.removal import (
        check_target,
        delete_resources,
        made_resources,
        stop_left_connectors,
        stop_run,
    )

    reading, directory = _read(arguments, checks_connectors=False)
    data = _data_directory(arguments, reading, directory)

    def report(text: str) -> None:
        context.out.write(f"{text}\n")
        context.out.flush()

    was_running = stop_run(data, report) or stop_left_connectors(data, report)
    report("stopped" if was_running else "the pipeline does not run")
    if not arguments.delete:
        return Exit.DONE
    if not data.files.exists(data.path("state.json")):
        report(f"nothing to delete: {data.directory} has no state.json")
        return Exit.DONE
    client = _settings_of_last_run(arguments, context, data)
    check_target(data.load(), client, arguments.connect)
    if not arguments.yes:
        made = made_resources(data.load(), data.directory)
        report("\n  ".join(("This deletes:", *made)))
        if not context.asks_to_agree():
            report("nothing was deleted: type yes, or give --yes")
            return Exit.FAILED
    problems = delete_resources(reading.pipeline, data, client, directory, report)
    for each in problems:
        context.err.write(f"moldau: not deleted: {each}\n")
    return Exit.FAILED if problems else Exit.DONE


command = PipelineCommand()
