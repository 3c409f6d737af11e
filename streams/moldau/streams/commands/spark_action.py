"""`moldau streams run --engine spark`: an app on a Spark session of this process."""

from __future__ import annotations

from argparse import Namespace
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.command import Context, Exit, UsageError
from moldau.cli.commands.cluster_connection import client_settings
from moldau.errors import ConfigError
from moldau.plugins import PluginError, installed_plugins
from moldau.plugins.extras import install_command
from moldau.streams.contracts import SPARK_SESSIONS
from moldau.streams.problems import StreamsError

if TYPE_CHECKING:
    from moldau.streams.commands.given_app import App
    from moldau.streams.spark.deployment import Deployment

_EMBEDDED_ONLY: Final = (
    "state",
    "listen",
    "metrics",
    "traces",
    "trace_ratio",
    "worker",
    "accept_changes",
)
_LOG_LEVEL: Final = "spark.log.level"
_QUIET: Final = "OFF"
"""What fails is raised as an error of one line; Java would log it again with all its frames."""


def run_on_spark(app: App, arguments: Namespace, context: Context) -> int:
    """Run the app until a batch fails or a signal, and return the exit code."""
    from moldau.runtime.signals import interrupted_by_sigterm
    from moldau.streams.spark.deployment import (
        BATCH_RECORDS,
        Deployment,
        deployment_of,
        is_deployment,
    )
    from moldau.streams.spark.engine import SparkApp
    from moldau.streams.spark.preparation import prepared
    from moldau.streams.worker.settings import EXACTLY_ONCE, processing_guarantee

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
    with ExitStack() as left:
        left.enter_context(interrupted_by_sigterm())
        left.enter_context(suppress(KeyboardInterrupt))
        found = prepared(plan, checkpoint, given)
        left.callback(found.close)
        session = _session(plan.app, where)
        left.callback(session.stop)
        with SparkApp(found, session) as running:
            running.start()
            if not arguments.json:
                context.out.write(f"streams app {plan.app} starts on Spark; Ctrl-C stops it\n")
                context.out.flush()
            running.wait()
    return Exit.DONE


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
    except (PySparkException, Py4JError) as error:
        raise StreamsError(f"app={name}: Spark does not start: {first_line(error)}") from None
