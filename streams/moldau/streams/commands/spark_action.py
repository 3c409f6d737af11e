"""`moldau streams run --engine spark`: an app on a Spark session of this process."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import client_settings
from moldau.cli.output import write_json
from moldau.errors import ConfigError
from moldau.errors.amounts import counted
from moldau.plugins import PluginError, installed_plugins
from moldau.plugins.extras import install_command
from moldau.streams.commands.given_app import load_app
from moldau.streams.contracts import SPARK_SESSIONS
from moldau.streams.problems import StreamsError

if TYPE_CHECKING:
    from moldau.streams.commands.given_app import App
    from moldau.streams.spark.deployment import Deployment

T = TypeVar("T")
_EMBEDDED_ONLY: Final = (
    "state", "listen", "metrics", "otlp", "traces", "trace_ratio", "worker", "accept_changes",
)  # fmt: skip
_LOG_LEVEL: Final = "spark.log.level"
_QUIET: Final = "OFF"
"""What fails is raised as an error of one line; Java would log it again with all its frames."""


def run_on_spark(app: App, arguments: Namespace, context: Context) -> int:
    """Run the app until a batch fails or a signal, and return the exit code."""
    import logging

    from moldau.cli.log_format import event_lines
    from moldau.records import tell_kernel
    from moldau.runtime.real_files import RealFiles
    from moldau.runtime.signals import interrupted_by_sigterm
    from moldau.streams.spark.deployment import (
        BATCH_RECORDS,
        Deployment,
        deployment_of,
        is_deployment,
    )
    from moldau.streams.spark.engine import SparkApp
    from moldau.streams.spark.failures import without_tracebacks
    from moldau.streams.spark.preparation import prepared
    from moldau.streams.worker.settings import EXACTLY_ONCE, processing_guarantee

    if events := event_lines(context, RealFiles()):
        # The standard library writes warnings by itself as long as the root has no handler.
        logging.getLogger().handlers[:] = [logging.StreamHandler(), *events]
    for name in _EMBEDDED_ONLY:
        if getattr(arguments, name):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} has no effect with --engine spark: leave it out")
    if arguments.workers > 1:
        raise UsageError("--workers has no effect with --engine spark: Spark has executors")
    clients = client_settings(arguments, context, {})
    deployment = deployment_of({name: clients[name] for name in clients if is_deployment(name)})
    checkpoint = arguments.checkpoint or deployment.checkpoint
    if not checkpoint:
        raise UsageError("--engine spark needs --checkpoint DIR, which all executors reach")
    plan = app.plan()
    given: dict[str, object] = {
        name: text
        for name, text in clients.items()
        if (not is_deployment(name) or name == BATCH_RECORDS) and name != "client.id"
    }
    given.setdefault(processing_guarantee.name, getattr(app, "guarantee", EXACTLY_ONCE))
    where = Deployment(arguments.master or deployment.master, checkpoint, deployment.conf)
    tell_kernel(lambda notice: context.err.write(f"moldau: {notice}\n"))
    with ExitStack() as left:
        left.enter_context(interrupted_by_sigterm())
        left.enter_context(suppress(KeyboardInterrupt))
        left.enter_context(without_tracebacks())
        found = prepared(plan, checkpoint, given)
        left.callback(found.close)
        session = started_whole(
            lambda: _session(plan.app, where), lambda made: left.callback(_stop, made)
        )
        with SparkApp(found, session) as running:
            running.start()
            if not arguments.json:
                context.out.write(f"streams app {plan.app} starts on Spark; Ctrl-C stops it\n")
                context.out.flush()
            running.wait()
    return Exit.DONE


def started_whole(make: Callable[[], T], keep: Callable[[T], object]) -> T:
    """Return what `make` returns, which another thread calls. It gives it to `keep`, to be closed
    at the end. A signal that comes meanwhile is raised when that is done: in the middle of a call
    of Java it would leave Java behind, and PySpark would write its own errors."""
    from moldau.runtime.children import Mailbox, start_thread

    made, failed, ended = list[T](), list[Exception](), Mailbox[None]()

    def work() -> None:
        try:
            made.append(make())
            keep(made[0])
        except Exception as error:
            failed.append(error)
        finally:
            for _ in range(2):  # one for each way to wait below
                ended.put(None)

    try:
        start_thread(work, "start of Spark")
        ended.take(None)
    except KeyboardInterrupt:  # not by join: in Python 3.11 one that is interrupted ends the next
        ended.take(None)
        raise
    if failed:
        raise failed[0]
    return made[0]


def _session(name: str, where: Deployment) -> Any:
    """Return a Spark session. Raise StreamsError if Spark or Java is missing, or if it does not
    start."""
    try:
        new_session: Any = installed_plugins().load(SPARK_SESSIONS, "new")
    except PluginError:
        raise StreamsError(f"Spark is not installed: {install_command('spark')}") from None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from moldau.streams.spark.failures import first_line

    try:
        return new_session(name, master=where.master, conf={_LOG_LEVEL: _QUIET, **where.conf})
    except ConfigError as error:
        raise StreamsError(str(error)) from None
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise StreamsError(f"app={name}: Spark does not start: {first_line(error)}") from None


def _stop(session: Any) -> None:
    from moldau.streams.spark.failures import without_java

    with without_java():
        session.stop()


def move_app(arguments: Namespace, context: Context) -> int:
    """Move the app, and say how it is started there."""
    from moldau.runtime.places import absolute_path
    from moldau.streams.spark.deployment import is_deployment
    from moldau.streams.spark.moving import to_embedded, to_spark

    plan = load_app(arguments.app, absolute_path(".")).plan()
    given: dict[str, object] = {
        name: text
        for name, text in client_settings(arguments, context, {}).items()
        if not is_deployment(name) and name != "client.id"
    }
    move = to_spark if arguments.to == "spark" else to_embedded
    found = move(plan, arguments.checkpoint, given)
    if arguments.json:
        write_json(context.out, asdict(found))
        return Exit.DONE
    where = ""
    if arguments.to == "spark":
        where = f" --engine spark --checkpoint {arguments.checkpoint}"
    carried = (
        f"{counted(found.tasks, 'task')} with {counted(found.rows, 'row')}" if found.tasks else ""
    )
    context.out.write(
        f"moved {found.app}: {', '.join(filter(None, (carried, found.note)))}; start it with "
        f"moldau streams run {arguments.app}{where}\n"
    )
    return Exit.DONE
