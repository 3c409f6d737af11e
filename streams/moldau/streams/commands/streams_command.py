"""`moldau streams`: run an app, show its topology, list its stores."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable
from typing import Final

from moldau.cli.command import Context
from moldau.cli.commands.cluster_connection import add_connection_arguments
from moldau.cli.log_format import add_log_format
from moldau.cli.numbers import INT16_MAX, whole
from moldau.cli.otlp_options import add_otlp_option, add_trace_options
from moldau.streams.commands.summaries import SUMMARIES

_LEVELS: Final = ("trace", "debug", "info", "warn", "error", "fatal")
_ENGINES: Final = ("embedded", "spark")
_PAUSES: Final = {
    "pause": "let all workers of an app process nothing until it is resumed",
    "resume": "let a paused app go on",
}
_SHOWS: Final = {
    "topology": "the sub-topologies of an app with their topics and stores",
    "explain": "each step of an app, and what it keeps",
    "draw": "the app as a picture: SVG on standard output",
}


class StreamsCommand:
    """The `streams` command. It imports nothing that an app needs before an app is named."""

    summary = SUMMARIES["streams"]

    def configure(self, parser: ArgumentParser, /) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        run = actions.add_parser(
            "run",
            help="run an app until a signal",
            description="Runs the app in this process, or in --workers processes, each a member "
            "of the app's group. SIGTERM and Ctrl-C commit and stop.",
        )
        add_connection_arguments(run)
        _add_app(run)
        run.add_argument("--state", metavar="DIR", help="the directory of the stores")
        _add_served(run)
        _add_processes(run)
        run.add_argument(
            "--accept-changes",
            action="store_true",
            help="start although stores or inputs of the app are gone that it had before",
        )
        _add_engine(run)
        run.add_argument("--master", metavar="URL", help="with --engine spark: Spark's master")
        run.add_argument(
            "--checkpoint",
            metavar="DIR",
            help="with --engine spark: the directory of offsets and stores, on a disk that all "
            "executors reach",
        )
        run.add_argument("--log-level", choices=_LEVELS, default="info", help="default: info")
        add_log_format(run)
        checks = [_add_plan(actions.add_parser), _add_adopt(actions.add_parser)]
        points = [_add_savepoint(actions.add_parser), _add_restore(actions.add_parser)]
        move = _add_move(actions.add_parser)
        reset = _add_reset(actions.add_parser)
        state = actions.add_parser("state", help="list the stores on this machine with their sizes")
        state.add_argument("--state", metavar="DIR", help="the directory of the stores")
        state.add_argument("--app", metavar="NAME", help="of this app alone")
        state.add_argument("--json", action="store_true", help="write JSON")
        status = _add_status(actions.add_parser)
        pauses = [_add_pause(actions.add_parser, each) for each in _PAUSES]
        pauses.append(_add_workers(actions.add_parser))
        shows = {name: actions.add_parser(name, help=what) for name, what in _SHOWS.items()}
        for each in shows.values():
            _add_app(each)
        explain = shows["explain"]
        _add_engine(explain)
        explain.add_argument("--json", action="store_true", help="write JSON")
        explain.add_argument(
            "--partitions",
            action="append",
            default=[],
            metavar="TOPIC=N",
            help="the partition count of an input, to see what the app makes on it and whether it "
            "can run; may be repeated (default: one that fits)",
        )
        explain.add_argument(
            "--set",
            action="append",
            default=[],
            dest="client_settings",
            metavar="NAME=VALUE",
            help="with --json: check that the app can run with this setting; may be repeated",
        )
        _add_cluster(explain)
        for each in (run, *checks, *points, move, reset, state, status, *pauses, *shows.values()):
            each.add_argument("--debug", action="store_true", default=SUPPRESS, help=SUPPRESS)

    def run(self, arguments: Namespace, context: Context, /) -> int:
        if arguments.action == "run":
            from moldau.streams.commands.run_action import run_app

            return run_app(arguments, context)
        if arguments.action == "plan":
            from moldau.streams.commands.plan_action import plan_app

            return plan_app(arguments, context)
        if arguments.action == "adopt":
            from moldau.streams.commands.adopt_action import adopt_app

            return adopt_app(arguments, context)
        if arguments.action in ("savepoint", "restore"):
            from moldau.streams.commands.savepoint_action import restore_app, save_app

            act = save_app if arguments.action == "savepoint" else restore_app
            return act(arguments, context)
        if arguments.action == "move":
            from moldau.streams.commands.spark_action import move_app

            return move_app(arguments, context)
        if arguments.action == "reset":
            from moldau.streams.commands.reset_action import reset_app

            return reset_app(arguments, context)
        if arguments.action == "status":
            from moldau.streams.commands.status_action import show_status

            return show_status(arguments, context)
        if arguments.action in _PAUSES:
            from moldau.streams.commands.pause_action import pause_app

            return pause_app(arguments, context)
        if arguments.action == "workers":
            from moldau.streams.commands.workers_action import change_workers

            return change_workers(arguments, context)
        if arguments.action in _SHOWS:
            from moldau.streams.commands.show_action import show_app

            return show_app(arguments, context)
        from moldau.streams.commands.state_action import list_state

        return list_state(arguments, context)


def _add_cluster(explain: ArgumentParser) -> None:
    """Add the cluster on which the keys of inputs are looked at."""
    explain.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT[,...]",
        help="look at the last records of the inputs there: do their keys lie where the app takes "
        "them to be",
    )
    explain.add_argument(
        "--command-config", metavar="FILE", help="settings of the client for --bootstrap"
    )


def _add_plan(add_parser: Callable[..., ArgumentParser]) -> ArgumentParser:
    from moldau.streams.commands.plan_action import DESCRIPTION, add_plan

    plan = add_parser(
        "plan",
        help="what becomes of an app's state when this version of it starts",
        description=DESCRIPTION,
    )
    add_connection_arguments(plan)
    _add_app(plan)
    add_plan(plan)
    return plan


def _add_adopt(add_parser: Callable[..., ArgumentParser]) -> ArgumentParser:
    from moldau.streams.commands.adopt_action import DESCRIPTION, add_adopt

    adopt = add_parser(
        "adopt",
        help="what keeps an app from taking over one of Java's Kafka Streams",
        description=DESCRIPTION,
    )
    add_connection_arguments(adopt)
    _add_app(adopt)
    add_adopt(adopt)
    return adopt


def _add_status(add_parser: Callable[..., ArgumentParser]) -> ArgumentParser:
    status = add_parser(
        "status",
        help="which worker has which task, and how far standbys are",
        description="Shows the tasks of the workers of an app, with their standbys, as the app's "
        "group on the broker has them.",
    )
    add_connection_arguments(status)
    _add_app(status)
    return status


def _add_pause(add_parser: Callable[..., ArgumentParser], name: str) -> ArgumentParser:
    from moldau.streams.commands.pause_action import add_http_config

    pause = add_parser(
        name,
        help=_PAUSES[name],
        description="Asks each worker of the app, at the address that it serves queries at "
        "(--listen). Workers stay in their group, keep their tasks and go on to commit; one that "
        "is started later is not paused.",
    )
    add_connection_arguments(pause)
    _add_app(pause)
    add_http_config(pause)
    return pause


def _add_workers(add_parser: Callable[..., ArgumentParser]) -> ArgumentParser:
    from moldau.streams.commands.workers_action import DESCRIPTION, add_workers

    workers = add_parser(
        "workers",
        help="run another number of workers, while the app runs",
        description=DESCRIPTION,
    )
    add_connection_arguments(workers)
    _add_app(workers)
    add_workers(workers)
    return workers


def _add_savepoint(add_parser: Callable[..., ArgumentParser]) -> ArgumentParser:
    savepoint = add_parser(
        "savepoint",
        help="keep the stores and offsets of a stopped app in a directory or a bucket",
        description="Writes the stores and the offsets of a stopped app, as its last commit left "
        "them, to an empty directory or a new prefix of a bucket. An app can be restored from it "
        "in another cluster, and with more partitions.",
    )
    add_connection_arguments(savepoint)
    _add_app(savepoint)
    savepoint.add_argument(
        "place", metavar="file:///DIR", help="an empty directory, or s3://BUCKET/PREFIX"
    )
    savepoint.add_argument(
        "--force",
        action="store_true",
        help="first remove members of the app's group that were killed, which stay for 45 s; those "
        "of a streams group cannot be removed",
    )
    return savepoint


def _add_restore(add_parser: Callable[..., ArgumentParser]) -> ArgumentParser:
    restore = add_parser(
        "restore",
        help="give an app the stores and offsets of a savepoint",
        description="Writes the stores and the offsets of a savepoint into a cluster where the "
        "app has none, in one transaction. The inputs must be there, with the records that follow "
        "the savepoint. Then start the app as ever.",
    )
    add_connection_arguments(restore)
    _add_app(restore)
    restore.add_argument("place", metavar="file:///DIR", help="its directory or bucket")
    return restore


def _add_move(add_parser: Callable[..., ArgumentParser]) -> ArgumentParser:
    move = add_parser(
        "move",
        help="carry a stopped app to another engine, with its stores and offsets",
        description="Carries the stores and the offsets of a stopped app from the embedded "
        "engine to a new checkpoint on Spark, or back, so that counts go on.",
    )
    add_connection_arguments(move)
    _add_app(move)
    move.add_argument("--to", choices=_ENGINES, required=True, help="the engine to move to")
    move.add_argument(
        "--checkpoint", metavar="DIR", required=True, help="the app's checkpoint on Spark"
    )
    return move


def _add_reset(add_parser: Callable[..., ArgumentParser]) -> ArgumentParser:
    from moldau.streams.commands.reset_action import DESCRIPTION, add_reset

    reset = add_parser(
        "reset",
        help="let a stopped app read its inputs again (dry run unless --execute)",
        description=DESCRIPTION,
    )
    add_connection_arguments(reset)
    add_reset(reset)
    _add_engine(reset)
    return reset


def _add_processes(run: ArgumentParser) -> None:
    from moldau.streams.commands.workers_action import processes

    run.add_argument(
        "--workers",
        type=processes,
        default=1,
        metavar="N",
        help="processes (1); auto takes the cores of the machine, but one in four",
    )
    run.add_argument("--worker", type=whole(0, INT16_MAX), help=SUPPRESS)
    run.add_argument("--supervisor", help=SUPPRESS)


def _add_served(parser: ArgumentParser) -> None:
    """Add what a worker serves and pushes."""
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="answer queries and serve metrics over HTTP there"
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve /metrics for Prometheus, /healthz and /readyz there",
    )
    add_otlp_option(parser)
    add_trace_options(parser)
    parser.add_argument(
        "--http-config",
        metavar="FILE",
        help="settings that protect --listen and --metrics: TLS, client certificates, "
        "passwords, bearer tokens (docs/security.md)",
    )


def _add_engine(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--engine", choices=_ENGINES, default=_ENGINES[0], help="what runs the app (embedded)"
    )


def _add_app(parser: ArgumentParser) -> None:
    parser.add_argument("app", metavar="MODULE:APP", help="where the app is, as word_count:app")


command = StreamsCommand()
